package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/fault"
)

const lostInFlight = "OpenFn/kit#1179, OpenFn/lightning#2943, #3622: events in flight are lost with the connection"

// deliveryTrials are about bad days: what is reported must be known to the server in the end, once.
func deliveryTrials() []trial {
	trials := append(cuts(), refusals()...)
	return append(trials, []trial{
		{Case: suite.Case{
			ID: "W4.11", Title: "a run whose topic crashes is joined again and goes on", Level: suite.Must,
			Why:    "A deadlock in the database crashes the channel; the run has done half of its work.",
			Source: "Phoenix: phx_error, and no reply to what was pushed",
		}, setup: setup{faults: []fault.Rule{{Event: "step:complete", Action: fault.Crash}}}, do: func(l *lab) {
			checkDelivered(l, l.execute(chain(codeCount, codeCount)))
		}},
		{Case: suite.Case{
			ID: "W4.12", Title: "a run outlives channels that crash for five seconds", Level: suite.Must,
			Why:    "A database that fails over crashes every channel for some seconds.",
			Source: "Lightning: PostgreSQL's failover",
			Limit:  40 * time.Second,
		}, setup: setup{faults: []fault.Rule{{Event: "step:start", Action: fault.Crash, Count: -1}}}, do: func(l *lab) {
			id := l.enqueue(chain(codeCount, codeCount))
			l.watch(5 * time.Second)
			l.server.ClearFaults()
			checkDelivered(l, l.awaitEnd(id))
		}},
		{Case: suite.Case{
			ID: "W4.13", Title: "a server that is away for two seconds costs no run", Level: suite.Must,
			Why:    "Every deployment of the server takes its sockets away.",
			Source: lostInFlight,
		}, setup: setup{capacity: 2}, do: func(l *lab) {
			first, second := l.enqueue(chain(codeWait, codeCount)), l.enqueue(chain(codeWait, codeLog))
			l.awaitStart(first)
			l.awaitStart(second)
			_ = l.server.Restart(1012, 2*time.Second) // the code is a good one
			l.reason(l.awaitEnd(first), "success")
			l.reason(l.awaitEnd(second), "success")
		}},
		{Case: suite.Case{
			ID: "W4.17", Title: "a run whose log lines are refused is reported all the same", Level: suite.Must,
			Why:    "A line that is too long must not cost the run.",
			Source: "Lightning: changesets of LogLine",
		}, setup: setup{faults: []fault.Rule{refuse("run:log", `{"errors":{"message":["is invalid"]}}`), refuse("run:batch_logs", `{"errors":{"message":["is invalid"]}}`)}}, do: func(l *lab) {
			l.reason(l.execute(chain(codeLog, codeCount)), "success")
		}},
		{Case: suite.Case{
			ID: "W4.18", Title: "a reply that never comes does not cost the run", Level: suite.Must,
			Why:    "One reply that is lost, and the run waits for it until it is lost as well.",
			Source: "OpenFn/kit#1130; ws-worker: WORKER_MESSAGE_TIMEOUT_SECONDS",
			Limit:  40 * time.Second,
		}, setup: setup{patience: time.Second, faults: []fault.Rule{{Event: "step:complete", Action: fault.Withhold, When: fault.After}}}, do: func(l *lab) {
			checkDelivered(l, l.execute(chain(codeCount, codeCount)))
		}},
		{Case: suite.Case{
			ID: "W4.19", Title: "an event that is lost does not cost the run", Level: suite.Must,
			Why:    "The server never heard of it, so it has to be told again.",
			Source: "OpenFn/kit#1130; ws-worker: WORKER_MESSAGE_TIMEOUT_SECONDS",
			Limit:  40 * time.Second,
		}, setup: setup{patience: time.Second, faults: []fault.Rule{{Event: "step:complete", Action: fault.Withhold, When: fault.Before}}}, do: func(l *lab) {
			checkDelivered(l, l.execute(chain(codeCount, codeCount)))
		}},
		{Case: suite.Case{
			ID: "W4.20", Title: "what was not answered is sent again only under a new join", Level: suite.Should,
			Why:    "The first one may have been applied, and be answered yet; under the same join its copy is refused, or stored twice.",
			Source: "OpenFn/kit#1130, #1137: retries were switched off because they duplicated logs",
			Limit:  40 * time.Second,
		}, setup: setup{patience: time.Second, faults: []fault.Rule{
			{Event: "run:log", Skip: 2, Action: fault.Withhold, When: fault.After},
			{Event: "run:batch_logs", Action: fault.Withhold, When: fault.After},
		}}, do: checkSentOnce},
		{Case: suite.Case{
			ID: "W4.21", Title: "log lines come in the order in which they were logged, all of them", Level: suite.Must,
			Why:    "A log in another order is worse than none.",
			Source: "Lightning shows lines by their time, then as they came",
		}, do: func(l *lab) {
			record := l.execute(one(codeLog))
			l.reason(record, "success")
			if got := numbered(record); !slices.Equal(got, fiftyLines()) {
				l.Failf("line 0 to line 49", "%s", list(got))
			}
		}},
		{Case: suite.Case{
			ID: "W4.22", Title: "a U+0000 in a log line or in an output does not cost the run", Level: suite.Must,
			Why:    "PostgreSQL stores none; the channel crashes over it, again and again.",
			Source: "PostgreSQL: \\u0000 cannot be converted to text",
		}, do: func(l *lab) { l.reason(l.execute(chain(codeNUL, codeCount)), "success") }},
		{Case: suite.Case{
			ID: "W4.23", Title: "half a surrogate pair in a log line or in an output does not cost the connection", Level: suite.Must,
			Why:    "Jason refuses it, and the server closes the whole socket with 1011: every run on it is cut off, and the frame is sent again.",
			Source: "Phoenix: a message that is no JSON ends the socket",
		}, do: func(l *lab) {
			l.reason(l.execute(chain(codeSurrogate, codeCount)), "success")
			l.oneConnection()
		}},
		{Case: suite.Case{
			ID: "W4.24", Title: "no frame is over the server's limit, also when its text is escaped", Level: suite.Must,
			Why:    "A frame over 11,000,000 bytes drops the connection, with every run on the worker.",
			Source: "Lightning: max_frame_size; an output under the payload limit of 10 MB that is quoted twice",
			Limit:  40 * time.Second,
		}, do: func(l *lab) {
			l.awaitEnd(l.enqueue(one(codeQuotes)))
			l.oneConnection()
		}},
		{Case: suite.Case{
			ID: "W4.25", Title: "it executes more runs at once than a socket has topics", Level: suite.Must,
			Why:    "The join of the 101st topic is refused, and its run is lost.",
			Source: "Phoenix 1.7.24 and 1.8.9: too many channels joined",
			Limit:  60 * time.Second,
		}, setup: setup{capacity: 104}, do: func(l *lab) { l.executeAll(104, codeWait) }},
		{Case: suite.Case{
			ID: "W4.26", Title: "a run whose token expired while the worker was away is given up", Level: suite.Must,
			Why:    "Its rejoin is refused for ever; a worker that goes on trying has lost the slot.",
			Source: "Lightning: exp of a run's token",
		}, do: func(l *lab) {
			lost := l.enqueue(one(codeWait))
			l.awaitStart(lost)
			_ = l.server.ExpireToken(lost)    // it is there
			_ = l.server.Kick(fault.Abnormal) // the code is a good one
			l.reason(l.execute(one(codeCount)), "success")
			if state := l.record(lost).State; state.Final() {
				l.Failf("no report of a run that the worker was not let into again", "%s", state)
			}
		}},
		{Case: suite.Case{
			ID: "W4.27", Title: "a plan that is not answered is asked for again", Level: suite.Must,
			Why:    "The run is claimed: whoever gives up has lost it.",
			Source: "A bug that ws-worker and others had: fetch:plan that times out loses the run",
			Limit:  40 * time.Second,
		}, setup: setup{patience: time.Second, faults: []fault.Rule{{Event: "fetch:plan", Action: fault.Withhold}}}, do: func(l *lab) {
			l.reason(l.execute(one(codeCount)), "success")
		}},
		{Case: suite.Case{
			ID: "W4.28", Title: "a run is not executed on an input that was erased", Level: suite.Should,
			Why:    "Under erase_all a dataclip is there for the first reading only; if its answer was lost, the second one is null, and the run would end in success on nothing.",
			Source: "Lightning: the retention policy erase_all wipes dataclips",
		}, setup: setup{
			mock:   mockserver.Config{WipeDataclips: true},
			faults: []fault.Rule{{Event: "fetch:dataclip", Action: fault.Drop, When: fault.After}},
		}, do: func(l *lab) {
			record := l.execute(one(codeCount))
			if data, _ := decoded(record.FinalState)["data"].(map[string]any); record.Reason == "success" && data["n"] != 2.0 {
				l.Failf("an exception, or a success on the input that there was", "success with %s", record.FinalState)
			}
		}},
	}...)
}

// cuts lose the connection around each event of a run.
func cuts() (trials []trial) {
	for i, cut := range []struct {
		event string
		when  fault.When
	}{
		{"run:start", fault.Before},
		{"run:start", fault.After},
		{"step:start", fault.Before},
		{"step:start", fault.After},
		{"run:log", fault.Before},
		{"run:log", fault.After},
		{"step:complete", fault.Before},
		{"step:complete", fault.After},
		{"run:complete", fault.Before},
		{"run:complete", fault.After},
	} {
		why := "The server has not heard of it: a run that is not told again stays as it was, and is lost."
		if cut.when == fault.After {
			why = "The server has applied it, and the worker cannot know: told again it is refused, and that must not harm the run."
		}
		faults := []fault.Rule{{Event: cut.event, Action: fault.Drop, When: cut.when}}
		if cut.event == "run:log" {
			faults = append(faults, fault.Rule{Event: "run:batch_logs", Action: fault.Drop, When: cut.when})
		}
		trials = append(trials, trial{Case: suite.Case{
			ID: fmt.Sprintf("W4.%d", 1+i), Title: fmt.Sprintf("the connection is lost %s %s is applied", cut.when, cut.event), Level: suite.Must,
			Why: why, Source: lostInFlight,
			Limit: time.Minute, // ws-worker waits 30 s for an answer that was lost with the connection, and then goes on
		}, setup: setup{faults: faults}, do: func(l *lab) {
			checkDelivered(l, l.execute(chain(codeLog, codeCount)))
			if len(l.server.Faults()) == 0 {
				l.Skipf("the worker has sent no %s, so that the connection was not lost", cut.event)
			}
			l.reason(l.execute(one(codeCount)), "success") // the slot is free
		}})
	}
	return trials
}

// refusals are the three shapes of Lightning's.
func refusals() (trials []trial) {
	for i, response := range []string{`{"output_dataclip":["is invalid"]}`, `{"errors":{"id":["is invalid"]}}`, `"something went wrong"`} {
		trials = append(trials, trial{Case: suite.Case{
			ID: fmt.Sprintf("W4.%d", 14+i), Title: "a step that is refused with " + response + " does not stop its run, or the next", Level: suite.Must,
			Why:    "Lightning refuses in three shapes; a worker that stumbles over one of them has lost a run, and a slot.",
			Source: "Lightning: {field: [message]}, {errors: {…}}, or a text",
		}, setup: setup{faults: []fault.Rule{refuse("step:complete", response)}}, do: func(l *lab) {
			l.awaitEnd(l.enqueue(one(codeCount)))
			l.server.ClearFaults()
			l.reason(l.execute(one(codeCount)), "success")
			if n := len(l.sent("step:complete")); n > 12 {
				l.Failf("a step that is refused to be let be", "%d times step:complete", n)
			}
		}})
	}
	return trials
}

// refuse refuses each of the events.
func refuse(event, response string) fault.Rule {
	return fault.Rule{Event: event, Action: fault.Refuse, Response: json.RawMessage(response), Count: -1}
}

// checkDelivered holds the record of a run of two jobs to one of each event, in order. A run:start and a log
// line may come twice.
func checkDelivered(l *lab, record mockserver.RunRecord) {
	l.reason(record, "success")
	got := slices.DeleteFunc(names(record), func(event string) bool {
		return !strings.HasPrefix(event, "step:") && event != "run:complete"
	})
	want := []string{"step:start", "step:complete", "step:start", "step:complete", "run:complete"}
	if !slices.Equal(got, want) {
		l.Failf("the server to have taken "+strings.Join(want, ", "), "%s", strings.Join(got, ", "))
	}
	if !slices.Contains(names(record), "run:start") {
		l.Failf("the server to have taken run:start", "none")
	}
	logged := numbered(record)
	if strings.Contains(string(record.Plan), "line ") && !slices.Equal(firstOfEach(logged), fiftyLines()) {
		l.Failf("the lines of the job, all of them and in order", "%s", list(logged))
	}
}

// firstOfEach leaves out what was there before: a batch of lines that is sent again comes behind all of its own.
func firstOfEach(all []string) (first []string) {
	for _, text := range all {
		if !slices.Contains(first, text) {
			first = append(first, text)
		}
	}
	return first
}

// numbered are the lines that codeLog wrote, of a run.
func numbered(record mockserver.RunRecord) (all []string) {
	for _, line := range lines(record) {
		parts, _ := line["message"].([]any)
		for _, part := range parts {
			if text, _ := part.(string); strings.HasPrefix(text, "line ") {
				all = append(all, text)
			}
		}
	}
	return all
}

func fiftyLines() (all []string) {
	for i := range 50 {
		all = append(all, fmt.Sprint("line ", i))
	}
	return all
}

// oneConnection fails if the worker has had to join worker:queue again.
func (l *lab) oneConnection() {
	l.watch(200 * time.Millisecond)
	if n := l.inQueue(); n > 1 {
		l.Failf("the connection to stay", "%s of worker:queue", plural(n, "join"))
	}
}

// checkSentOnce compares what was pushed under each join.
func checkSentOnce(l *lab) {
	l.execute(chain(codeLog, codeCount))
	if len(l.server.Faults()) == 0 {
		l.Skipf("the worker has sent no third run:log and no batch of lines, so that each answer came")
	}
	sent := make(map[string]bool)
	for _, f := range l.sent("run:log", "run:batch_logs") {
		key := fmt.Sprint(f.socket, " ", f.joinRef, " ", string(f.payload))
		if sent[key] {
			l.Fatalf("no event twice under one join", "%s", f.text)
		}
		sent[key] = true
	}
}
