package worker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

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
		}, do: checkScrubbed},
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

func options(name string, value any) fields { return fields{"options": fields{name: value}} }

const password = "correct-horse-battery"

func withCredential(code string) mockserver.Run {
	return mockserver.Run{
		Plan:        plan([]fields{job("a", code, fields{"credential_id": "the-credential"})}, nil), //nolint:gosec // the id of one
		Dataclip:    input,
		Credentials: map[string]json.RawMessage{"the-credential": json.RawMessage(`{"user":"ada","password":"` + password + `"}`)},
	}
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

func checkScrubbed(l *lab) {
	record := l.execute(withCredential(codeSecret))
	l.reason(record, "success")
	logged := false
	for _, e := range record.Events {
		if e.Event != "run:log" && e.Event != "run:batch_logs" {
			continue
		}
		logged = logged || strings.Contains(string(e.Payload), "the password is ")
		if strings.Contains(string(e.Payload), password) {
			l.Fatalf("*** in the place of the password", "it is in a %s", e.Event)
		}
	}
	if !logged {
		l.Failf("the line that the job logs, without the password", "none of it")
	}
	if strings.Contains(l.worker.log.String(), password) {
		l.Failf("no password in the worker's own output", "it is there")
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
