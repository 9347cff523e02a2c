package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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

// dataTrials are about what goes into a run and what comes out of it.
func dataTrials() []trial {
	return []trial{
		{Case: suite.Case{
			ID: "W3.16", Title: "an output over the payload limit is withheld, and says so", Level: suite.Must,
			Why:    "A frame over the server's limit takes the connection with it, and every run on it.",
			Source: "ws-worker: output_dataclip_error: DATACLIP_TOO_LARGE; options.payload_limit_mb",
		}, do: func(l *lab) {
			record := l.execute(one(codeLarge, options("payload_limit_mb", 1)))
			l.reason(record, "success")
			end := only(applied(record, "step:complete"))
			if end["output_dataclip"] != nil || end["output_dataclip_id"] != nil || end["output_dataclip_error"] != "DATACLIP_TOO_LARGE" {
				l.Failf("output_dataclip_error to be DATACLIP_TOO_LARGE, and neither output_dataclip nor its id", "the fields %s", list(slices.Sorted(keys(end))))
			}
		}},
		{Case: suite.Case{
			ID: "W3.17", Title: "no output is sent when the plan says output_dataclips: false", Level: suite.Must,
			Why:    "The project has decided that patients' data does not leave the worker.",
			Source: "Lightning: options.output_dataclips, of the retention policy erase_all",
		}, do: func(l *lab) {
			record := l.execute(one(codeCount, options("output_dataclips", false)))
			l.reason(record, "success")
			if end := only(applied(record, "step:complete")); end["output_dataclip"] != nil {
				l.Failf("no output_dataclip", "%v", end["output_dataclip"])
			}
		}},
		{Case: suite.Case{
			ID: "W3.18", Title: "what a job answers a webhook is sent with its step", Level: suite.Should,
			Why:    "Whoever called the webhook waits for it.",
			Source: "Lightning: webhook_response of step:complete",
		}, do: func(l *lab) {
			record := l.execute(in("fast_lane", one(codeWebhook)))
			l.reason(record, "success")
			response, _ := only(applied(record, "step:complete"))["webhook_response"].(map[string]any)
			if body, _ := response["body"].(map[string]any); response["status"] != 201.0 || body["sum"] != 42.0 {
				l.Failf(`webhook_response to be {"status":201,"body":{"sum":42}}`, "%v", response)
			}
		}},
		{Case: suite.Case{
			ID: "W3.19", Title: "jobs see the globals of the plan", Level: suite.Must,
			Why:    "A workflow that uses them crashes otherwise.",
			Source: "OpenFn runtime: globals of the plan",
		}, do: func(l *lab) {
			record := l.execute(one(codeGreet, fields{"globals": codeGlobals}))
			l.reason(record, "success")
			l.finalData(record, "greeting", "hello Ada")
		}},
		{Case: suite.Case{
			ID: "W3.20", Title: "a job has its credential, and its output has not", Level: suite.Must,
			Why:    "Whoever may look at dataclips must not see passwords in them.",
			Source: "ws-worker: fetch:credential, and --state-props-to-remove",
		}, do: checkCredential},
		{Case: suite.Case{
			ID: "W3.21", Title: "a secret that a job logs is not in the lines that are sent", Level: suite.Should,
			Why:    "Lightning scrubs as well, but forgets the secrets when the topic is joined again.",
			Source: "Lightning: the log scrubber of RunChannel; ws-worker 1.25 leaves it to that",
		}, do: func(l *lab) {
			record := l.execute(withCredential(codeSecret))
			for _, e := range record.Events {
				if (e.Event == "run:log" || e.Event == "run:batch_logs") && strings.Contains(string(e.Payload), password) {
					l.Fatalf("*** in the place of the password", "it is in a %s", e.Event)
				}
			}
			if strings.Contains(l.worker.log.String(), password) {
				l.Failf("no password in the worker's own output", "it is there")
			}
		}},
		{Case: suite.Case{
			ID: "W3.22", Title: "jobs work on the input that the plan names", Level: suite.Must,
			Why:    "It is what the run is about.",
			Source: "Lightning: fetch:dataclip, answered with a binary frame",
		}, do: func(l *lab) {
			record := l.execute(chain(codeCount, codeCount))
			l.reason(record, "success")
			l.finalData(record, "n", 3.0)
		}},
		{Case: suite.Case{
			ID: "W3.23", Title: "the final dataclip of a run is the output of its last step", Level: suite.Should,
			Why:    "It is what whoever started the run is shown.",
			Source: "Lightning: final_dataclip_id of run:complete",
		}, do: func(l *lab) {
			record := l.execute(chain(codeCount, codeCount))
			steps := applied(record, "step:complete")
			if len(steps) == 0 || record.FinalDataclipID == "" || record.FinalDataclipID != steps[len(steps)-1]["output_dataclip_id"] {
				l.Failf("final_dataclip_id to be the output_dataclip_id of the last step", "%q", record.FinalDataclipID)
			}
		}},
		{Case: suite.Case{
			ID: "W3.24", Title: "a run that returns no object is not lost", Level: suite.Must,
			Why:    "A final_state that is a number is refused, and the run never ends.",
			Source: "OpenFn/lightning#4627",
		}, do: func(l *lab) { l.execute(one(codeNumber)) }},
		{Case: suite.Case{
			ID: "W3.25", Title: "timestamps are microseconds since 1970, in decimal, as a text", Level: suite.Must,
			Why:    "Everything else is refused, or is a time in 1970.",
			Source: "Lightning: Lightning.UnixDateTime",
		}, do: checkTimestamps},
		{Case: suite.Case{
			ID: "W3.26", Title: "log lines have a level, a source and a message that Lightning takes", Level: suite.Must,
			Why:    "A line with another level, or a source of more than eight characters, is refused, and nobody reads it.",
			Source: "Lightning: Lightning.Invocation.LogLine",
		}, do: checkLines},
		{Case: suite.Case{
			ID: "W3.27", Title: "the output of a step is a text with JSON in it", Level: suite.Must,
			Why:    "Lightning before 2.19 refuses anything else.",
			Source: "Lightning 2.15: output_dataclip",
			Specs:  []suite.Spec{suite.Spec215},
		}, do: func(l *lab) {
			text, _ := l.output().(string)
			if !json.Valid([]byte(text)) {
				l.Failf("output_dataclip to be a text that is JSON", "%T", l.output())
			}
		}},
		{Case: suite.Case{
			ID: "W3.28", Title: "the output of a step is a text with JSON in it, or an object", Level: suite.Must,
			Why:    "Any other text is decoded and crashes the channel; anything else than an object will be refused by versions to come.",
			Source: "OpenFn/lightning#5098, #5104",
			Specs:  []suite.Spec{suite.Spec219},
		}, do: func(l *lab) {
			_, object := l.output().(map[string]any)
			text, _ := l.output().(string)
			if !object && !json.Valid([]byte(text)) {
				l.Failf("output_dataclip to be an object, or a text that is JSON", "%T", l.output())
			}
		}},
		{Case: suite.Case{
			ID: "W3.29", Title: "it leaves the topic of a run that is over", Level: suite.Should,
			Why:    "Each topic is a process at the server, and there are 100 on a socket at most.",
			Source: "ws-worker leaves; Phoenix 1.7.24: max_channels_per_socket",
		}, do: func(l *lab) {
			id := l.enqueue(one(codeCount))
			l.awaitEnd(id)
			l.await("phx_leave on the topic of the run", func() bool {
				return len(l.where(func(f seen) bool { return f.sent && f.event == "phx_leave" && f.run() == id })) > 0
			})
		}},
		{Case: suite.Case{
			ID: "W3.31", Title: "a run that ends badly does not harm the others", Level: suite.Must,
			Why:    "One customer's mistake is not another's outage.",
			Source: "docs/design.md; Pickup Manager",
		}, setup: setup{capacity: 2}, do: func(l *lab) {
			good := l.enqueue(chain(codeShort, codeShort, codeShort))
			for _, code := range []string{codeThrow, codeTypo} {
				l.awaitEnd(l.enqueue(one(code)))
			}
			l.reason(l.awaitEnd(good), "success")
			l.reason(l.execute(one(codeCount)), "success")
		}},
		{Case: suite.Case{
			ID: "W3.32", Title: "a run without code ends too", Level: suite.Should,
			Why:    "A plan with nothing to do is a workflow that somebody is still writing.",
			Source: "Lightning: jobs may have an empty body",
		}, do: func(l *lab) { l.reason(l.execute(one("")), "success") }},
	}
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

func options(name string, value any) fields { return fields{"options": fields{name: value}} }

const password = "correct-horse-battery" //nolint:gosec // of nobody

func withCredential(code string) mockserver.Run {
	return mockserver.Run{
		Plan:        plan([]fields{job("a", code, fields{"credential_id": "the-credential"})}, nil),
		Dataclip:    input,
		Credentials: map[string]json.RawMessage{"the-credential": json.RawMessage(`{"user":"ada","password":"` + password + `"}`)},
	}
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

// finalData fails unless the state that a run ended with has the value in its data.
func (l *lab) finalData(record mockserver.RunRecord, key string, want any) {
	if data, _ := decoded(record.FinalState)["data"].(map[string]any); data[key] != want {
		l.Failf(fmt.Sprintf("final_state with data.%s = %v", key, want), "%s", record.FinalState)
	}
}

func checkCredential(l *lab) {
	record := l.execute(withCredential(codeUser))
	l.reason(record, "success")
	l.finalData(record, "user", "ada")
	for _, e := range record.Events {
		if strings.Contains(string(e.Payload), password) {
			l.Failf("no password in what is reported", "it is in a %s", e.Event)
		}
	}
}

func checkTimestamps(l *lab) {
	record := l.execute(one(codeLog))
	for _, e := range record.Events {
		told := decoded(e.Payload)
		if !slices.Contains([]string{"run:start", "step:start", "step:complete", "run:log", "run:complete"}, e.Event) {
			continue
		}
		text, _ := told["timestamp"].(string)
		micros, err := strconv.ParseInt(text, 10, 64)
		if at := time.UnixMicro(micros); err != nil || at.Sub(e.At).Abs() > time.Hour {
			l.Fatalf("the time of "+e.Event+" in microseconds, as a text", "%v", told["timestamp"])
		}
	}
}

// lines returns the log lines of a run that the server took, in order, however they were sent.
func lines(record mockserver.RunRecord) (all []map[string]any) {
	for _, e := range record.Events {
		if e.Status != "ok" {
			continue
		}
		told := decoded(e.Payload)
		switch e.Event {
		case "run:log":
			all = append(all, told)
		case "run:batch_logs":
			batch, _ := told["logs"].([]any)
			for _, line := range batch {
				fields, _ := line.(map[string]any)
				all = append(all, fields)
			}
		}
	}
	return all
}

func checkLines(l *lab) {
	const maxSource = 8
	record := l.execute(one(codeLog))
	step := only(applied(record, "step:start"))["step_id"]
	ofJob := 0
	for _, line := range lines(record) {
		level, _ := line["level"].(string)
		if line["level"] != nil && !slices.Contains([]string{"success", "always", "info", "warn", "error", "debug"}, level) {
			l.Failf("a level of success, always, info, warn, error or debug", "%v", line["level"])
		}
		if source, _ := line["source"].(string); utf8.RuneCountInString(source) > maxSource {
			l.Failf("a source of eight characters at most", "%s", source)
		}
		if line["message"] == nil {
			l.Failf("a message", "none")
		}
		if text, _ := json.Marshal(line["message"]); strings.Contains(string(text), "line ") {
			ofJob++
			if line["step_id"] != step {
				l.Fatalf("the lines of a job to have its step_id", "%v", line["step_id"])
			}
		}
	}
	if ofJob == 0 {
		l.Failf("the lines that the job logs", "none of them")
	}
	for _, e := range record.Events {
		if (e.Event == "run:log" || e.Event == "run:batch_logs") && e.Status != "ok" {
			l.Fatalf("no line to be refused", "%s", e.Response)
		}
	}
}

// output executes a run and returns what its step left behind, as it came.
func (l *lab) output() any {
	record := l.execute(one(codeCount))
	l.reason(record, "success")
	return only(applied(record, "step:complete"))["output_dataclip"]
}
