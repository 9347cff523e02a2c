package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// runTrials are about the topic of a run: what is fetched, executed and reported, on a good day.
func runTrials() []trial {
	trials := []trial{
		{Case: suite.Case{
			ID: "W3.1", Title: "it joins the run's topic with the token of the claim, before all else on it", Level: suite.Must,
			Why:    "The token is the proof that the run is this worker's.",
			Source: "Lightning: RunChannel.join/3",
		}, setup: setup{faults: []fault.Rule{{Event: fault.Join, Topic: "run:*", Action: fault.Delay, Delay: 200 * time.Millisecond}}}, do: checkRunJoin},
		{Case: suite.Case{
			ID: "W3.2", Title: "a run whose token has a bad signature is not executed", Level: suite.Must,
			Why:    "With the server's public key a worker does no work for somebody else's server, with the credentials of its network.",
			Source: "ws-worker: WORKER_LIGHTNING_PUBLIC_KEY",
		}, setup: setup{foreignKey: true}, do: func(l *lab) {
			id := l.enqueue(one(codeCount))
			if l.until(5*time.Second, func() bool { return len(l.given()) > 0 }) != nil {
				l.Skipf("the worker has claimed no run, so that nothing is known of what it does with one")
			}
			l.watch(1500 * time.Millisecond)
			if events := l.record(id).Events; len(events) > 0 {
				l.Failf("nothing to be done for the run", "%s on its topic, the first of them %s", plural(len(events), "event"), events[0].Event)
			}
		}},
		{Case: suite.Case{
			ID: "W3.3", Title: "a run whose token has a good signature is executed", Level: suite.Must,
			Why:    "A worker that is given the key of its server must not refuse its runs.",
			Source: "ws-worker: WORKER_LIGHTNING_PUBLIC_KEY, base64 of a PEM",
		}, setup: setup{verify: true}, do: func(l *lab) { l.reason(l.execute(one(codeCount)), "success") }},
		{Case: suite.Case{
			ID: "W3.4", Title: "the plan is fetched first, then run:start, then the steps, and run:complete last", Level: suite.Must,
			Why:    "Lightning takes the times of a run from this order, and refuses steps of a run that is over.",
			Source: "ws-worker: recorded sessions; Lightning: RunChannel",
		}, do: checkOrder},
		{Case: suite.Case{
			ID: "W3.5", Title: "each step has a UUID of its own, and is completed under it", Level: suite.Must,
			Why:    "Logs and dataclips hang on the step; a second step with the same id is refused.",
			Source: "Lightning: Lightning.Invocation.Step",
		}, do: checkSteps},
		{Case: suite.Case{
			ID: "W3.6", Title: "the output of a step is the input of the next", Level: suite.Must,
			Why:    "People look at the input of the step that failed, and start the workflow again from there.",
			Source: "Lightning: input_dataclip_id and output_dataclip_id of steps",
		}, do: func(l *lab) { checkDataclips(l, chain(codeCount, codeCount, codeCount)) }},
		{Case: suite.Case{
			ID: "W3.7", Title: "the dataclips chain through branches, and where branches join", Level: suite.Should,
			Why:    "A step behind two others says whose output it was given.",
			Source: "docs/compatibility.md (graph-diamond): ws-worker 1.25 names the last branch",
		}, do: func(l *lab) { checkDataclips(l, branches()) }},
		{Case: suite.Case{
			ID: "W3.8", Title: "there is one run:complete, and nothing behind it", Level: suite.Must,
			Why:    "What comes behind the end is refused, and was lost.",
			Source: "Lightning: \"already in completed state\"",
		}, do: checkOneEnd},
		{Case: suite.Case{
			ID: "W3.9", Title: "a run that went well ends with success and no error", Level: suite.Must,
			Why:    "An error beside a success is shown as an error.",
			Source: "Lightning: Lightning.Runs.Handlers.CompleteRun",
		}, do: func(l *lab) {
			record := l.execute(one(codeCount))
			l.reason(record, "success")
			if end := only(applied(record, "run:complete")); end["error_type"] != nil || end["error_message"] != nil {
				l.Failf("error_type and error_message to be null", "%v, %v", end["error_type"], end["error_message"])
			}
		}},
		{Case: suite.Case{
			ID: "W3.10", Title: "a job that throws ends the run with fail and its message", Level: suite.Must,
			Why:    "People are told by mail what failed, and why.",
			Source: "OpenFn runtime: an error of the job's own is a JobError",
		}, do: func(l *lab) {
			record := l.execute(one(codeThrow))
			l.reason(record, "fail")
			if !strings.Contains(record.ErrorMessage, "thrown on purpose") {
				l.Failf("the error's message in error_message", "%q", record.ErrorMessage)
			}
		}},
		{Case: suite.Case{
			ID: "W3.11", Title: "a mistake in a job's code ends the run with crash", Level: suite.Should,
			Why:    "It tells who wrote the workflow from who uses it.",
			Source: "OpenFn runtime: a ReferenceError is a RuntimeCrash",
		}, do: func(l *lab) { l.reason(l.execute(one(codeTypo)), "crash") }},
		{Case: suite.Case{
			ID: "W3.12", Title: "a run over its time limit ends with kill, soon after", Level: suite.Must,
			Why:    "Its slot is taken for ever otherwise, and Lightning calls the run lost ten seconds later.",
			Source: "Lightning: options.run_timeout_ms, and the Janitor",
		}, do: func(l *lab) {
			id := l.enqueue(one(codeLong, options("run_timeout_ms", 1000)))
			l.awaitWithin(11*time.Second, "the run to be reported with run:complete within its time limit of 1 s and the server's 10 s of grace",
				func() bool { return l.record(id).State.Final() })
			l.reason(l.record(id), "kill")
		}},
		{Case: suite.Case{
			ID: "W3.13", Title: "a run whose credential cannot be had ends with exception", Level: suite.Should,
			Why:    "It is not the job's fault, and whoever is on duty looks elsewhere.",
			Source: "ws-worker: CredentialLoadError",
		}, do: func(l *lab) {
			run := mockserver.Run{Plan: plan([]fields{job("a", codeCount, fields{"credential_id": "unknown"})}, nil), Dataclip: input}
			l.reason(l.execute(run), "exception")
		}},
		{Case: suite.Case{
			ID: "W3.14", Title: "a failure that an on_job_failure edge takes care of is no failure of the run", Level: suite.Must,
			Why:    "Who has written a job for the failure does not want to be woken for it.",
			Source: "Lightning and ws-worker: the leaf steps decide",
		}, do: func(l *lab) {
			record := l.execute(mockserver.Run{Dataclip: input, Plan: plan(
				[]fields{job("a", codeThrow), job("b", codeCount)}, []fields{edge("a", "b", "on_job_failure")},
			)})
			l.reason(record, "success")
			l.steps(record, "a", "b")
		}},
		{Case: suite.Case{
			ID: "W3.15", Title: "edges are followed as their conditions say", Level: suite.Must,
			Why:    "The wrong branch writes to the wrong system.",
			Source: "Lightning: conditions of edges; docs/plan.md",
		}, do: checkConditions},
	}
	trials = append(trials, dataTrials()...)
	return append(trials, refusedJoins()...)
}

// refusedJoins are what a server says to who may not have the run.
func refusedJoins() (trials []trial) {
	for i, reason := range []string{"not_found", "unauthorized"} {
		trials = append(trials, trial{Case: suite.Case{
			ID: fmt.Sprintf("W3.%d", 33+i), Title: "a run whose join is refused with " + reason + " is let go, and its slot freed", Level: suite.Must,
			Why:    "The run was deleted or is too old; a worker that tries for ever has lost the slot.",
			Source: "Lightning: RunChannel.join/3",
		}, setup: setup{faults: []fault.Rule{{Event: fault.Join, Run: "lost", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"` + reason + `"}`), Count: -1}}}, do: func(l *lab) {
			lost := l.enqueue(one(codeCount, fields{"id": "lost"}))
			l.await("the join of the run's topic", func() bool { return len(l.joins("run:"+lost)) > 0 })
			l.reason(l.execute(one(codeCount)), "success")
		}})
	}
	return trials
}

// only returns the first of the payloads; a case that needs one finds none of its fields if there is none.
func only(payloads []map[string]any) map[string]any {
	if len(payloads) == 0 {
		return nil
	}
	return payloads[0]
}

func checkRunJoin(l *lab) {
	id := l.enqueue(one(codeCount))
	l.awaitEnd(id)
	onTopic := l.where(func(f seen) bool { return f.sent && f.run() == id })
	if onTopic[0].event != "phx_join" {
		l.Fatalf("phx_join first of all", "%s", onTopic[0].event)
	}
	var told struct{ Token string }
	onTopic[0].into(&told)
	if l.runTokens()[told.Token] != id {
		l.Failf("the token that the claim brought", "another")
	}
	if first := onTopic[0]; len(onTopic) > 1 {
		if reply, ok := l.answered(first); !ok || reply.at.After(onTopic[1].at) {
			l.Failf("nothing on the topic before the join is answered", "%s", onTopic[1].event)
		}
	}
}

// names returns the events of a run that the server took, in order.
func names(record mockserver.RunRecord) (all []string) {
	for _, e := range record.Events {
		if e.Status == "ok" {
			all = append(all, e.Event)
		}
	}
	return all
}

func checkOrder(l *lab) {
	record := l.execute(withCredential(codeCount))
	l.reason(record, "success")
	events := names(record)
	if len(events) == 0 || events[0] != "fetch:plan" {
		l.Failf("fetch:plan first of all", "%s", list(events))
	}
	for _, pair := range [][2]string{
		{"fetch:dataclip", "step:start"},
		{"fetch:credential", "step:start"},
		{"run:start", "step:start"},
		{"step:start", "step:complete"},
		{"step:complete", "run:complete"},
	} {
		first, second := slices.Index(events, pair[0]), slices.Index(events, pair[1])
		if first < 0 || second < 0 || first > second {
			l.Failf(pair[0]+" before "+pair[1], "%s", list(events))
		}
	}
}

func checkSteps(l *lab) {
	record := l.execute(branches())
	l.reason(record, "success")
	jobs := make(map[any]any) // by step
	for _, start := range applied(record, "step:start") {
		id, _ := start["step_id"].(string)
		if _, err := uuid.Parse(id); err != nil {
			l.Failf("a UUID as step_id", "%q", id)
		}
		if _, taken := jobs[id]; taken {
			l.Failf("a step_id of its own for each step", "%s twice", id)
		}
		jobs[id] = start["job_id"]
	}
	for _, end := range applied(record, "step:complete") {
		if job, started := jobs[end["step_id"]]; !started || job != end["job_id"] {
			l.Failf("each step:complete to have the step_id and the job_id of its step:start", "%v of %v", end["step_id"], end["job_id"])
		}
	}
	// The join is executed once for each branch.
	if starts, ends := len(jobs), len(applied(record, "step:complete")); starts != 5 || ends != 5 {
		l.Failf("five steps, each started and completed", "%d started, %d completed", starts, ends)
	}
}

// checkDataclips follows the ids from the input of a run through its steps.
func checkDataclips(l *lab, run mockserver.Run) {
	record := l.execute(run)
	l.reason(record, "success")
	var parts struct {
		DataclipID string `json:"dataclip_id"`
		Edges      []fields
	}
	_ = json.Unmarshal(record.Plan, &parts)                     // the server made it
	outputs, inputs := make(map[any][]any), make(map[any][]any) // by job
	for _, e := range record.Events {
		told := decoded(e.Payload)
		job := told["job_id"]
		switch e.Event {
		case "step:start":
			got := told["input_dataclip_id"]
			var good []any
			for _, edge := range parts.Edges {
				if edge["target_job_id"] == job {
					good = append(good, outputs[edge["source_job_id"]]...)
				}
			}
			if len(inputs)+len(outputs) == 0 {
				good = []any{parts.DataclipID}
			}
			if !slices.Contains(good, got) || slices.Contains(inputs[job], got) {
				l.Fatalf(fmt.Sprintf("the input_dataclip_id of %v to be the output of a step before it, of each once, or the input of the run", job), "%v", got)
			}
			inputs[job] = append(inputs[job], got)
		case "step:complete":
			outputs[job] = append(outputs[job], told["output_dataclip_id"])
		}
	}
	if len(outputs) != len(inputs) || len(outputs) == 0 {
		l.Failf("each step to have an output_dataclip_id", "%s and %s", plural(len(inputs), "input"), plural(len(outputs), "output"))
	}
}

func checkOneEnd(l *lab) {
	id := l.enqueue(chain(codeLog, codeCount))
	l.awaitEnd(id)
	l.watch(300 * time.Millisecond)
	var late []string
	over := false
	for _, e := range l.record(id).Events {
		if over {
			late = append(late, e.Event)
		}
		over = over || e.Event == "run:complete"
	}
	if len(late) > 0 {
		l.Failf("nothing behind run:complete", "%s", list(late))
	}
}

// steps fails unless the steps of a run were of these jobs, in any order.
func (l *lab) steps(record mockserver.RunRecord, jobs ...string) {
	var got []string
	for _, start := range applied(record, "step:start") {
		id, _ := start["job_id"].(string)
		got = append(got, id)
	}
	slices.Sort(got)
	if !slices.Equal(got, jobs) {
		l.Failf("steps of the jobs "+strings.Join(jobs, ", "), "steps of %s", strings.Join(got, ", "))
	}
}

func checkConditions(l *lab) {
	disabled := edge("a", "f", "always")
	disabled["enabled"] = false
	record := l.execute(mockserver.Run{Dataclip: input, Plan: plan(
		[]fields{job("a", codeCount), job("b", codeCount), job("c", codeCount), job("d", codeCount), job("e", codeCount), job("f", codeCount)},
		[]fields{
			edge("a", "b", "on_job_success"), edge("a", "c", "on_job_failure"),
			edge("a", "d", "state.data.n > 1"), edge("a", "e", "state.data.n > 100"), disabled,
		},
	)})
	l.reason(record, "success")
	l.steps(record, "a", "b", "d")
}
