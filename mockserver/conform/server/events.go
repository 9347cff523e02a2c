package server

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

var eventCases = []entry{
	{suite.Case{
		ID: "S5.1", Level: suite.Must, Title: "run:start is taken",
		Why:    "From it on people see that their run is being executed.",
		Source: ofLightning + "run:start answers ok with null",
	}, func(s *session) { s.started(1) }},
	{suite.Case{
		ID: "S5.2", Level: suite.Should, Title: "a second run:start is taken as well",
		Why:    "A worker that did not hear the answer says it again; a refusal would look like the end of the run.",
		Source: ofLightning + "run:start is accepted again",
	}, startTwice},
	{suite.Case{
		ID: "S5.3", Level: suite.Must, Title: "a step is started and completed, and the answers name it",
		Why:    "Without steps nobody sees what a run did.",
		Source: ofLightning + `step:start and step:complete answer {"step_id"}`,
	}, oneStep},
	{suite.Case{
		ID: "S5.4", Level: suite.Must, Title: "a second step:start with the same id is refused, and the topic stays",
		Why:    "A worker that did not hear the answer says it again, and takes the refusal for its answer; a step that is there twice is wrong.",
		Source: ofLightning + "has already been taken; " + "docs/delivery.md",
	}, stepTwice},
	{suite.Case{
		ID: "S5.5", Level: suite.Must, Title: "a second step:complete of a step is refused, and the topic stays",
		Why:    "A worker that did not hear the answer says it again, and takes the refusal for its answer.",
		Source: ofLightning + "has already been taken; " + "docs/delivery.md",
	}, stepCompleteTwice},
	{suite.Case{
		ID: "S5.6", Level: suite.Should, Title: "the end of a step that was not started is refused, and the topic stays",
		Why:    "What belongs to no step is seen by nobody; the refusal tells the worker.",
		Source: ofMock + `{"step_id":["not found"]}`,
	}, unknownStep},
	{suite.Case{
		ID: "S5.7", Level: suite.Must, Title: "an output is taken as a text with JSON in it",
		Why:    "All workers before ws-worker 1.27 send it so, and ours does unless it knows better.",
		Source: ofWorker + "output_dataclip is a string, with output_dataclip_id",
	}, textOutput},
	{suite.Case{
		ID: "S5.8", Level: suite.Must, Title: "an output is taken as the JSON object itself", Specs: []suite.Spec{suite.Spec219},
		Why:    "Encoded twice, 9 MB become 12, which is over the limit of a frame.",
		Source: ofWorker + "--no-stringify-state; lightning#5098, 2.19 and later",
	}, objectOutput},
	{suite.Case{
		ID: "S5.9", Level: suite.Must, Title: "a step whose output is withheld is completed",
		Why:    "The output may be too large, or not for keeping; the run has still done its work.",
		Source: ofWorker + "output_dataclip_error: DATACLIP_TOO_LARGE, without output_dataclip and its id",
	}, withheldOutput},
	{suite.Case{
		ID: "S5.10", Level: suite.Must, Title: "a step may have the output of another, and the input of the run, as its input",
		Why:    "Else the second step of each run is refused.",
		Source: ofLightning + "input_dataclip_id of a dataclip that is known",
	}, chained},
	{suite.Case{
		ID: "S5.11", Level: suite.Should, Title: "a step whose input nobody knows is refused, and the topic stays",
		Why:    "A dataclip that was never stored cannot be shown, and a retry from that step has no input.",
		Source: ofMock + `{"input_dataclip_id":["does not exist"]}`,
	}, unknownInput},
	{suite.Case{
		ID: "S5.12", Level: suite.Must, Title: "a log line of each level is taken",
		Why:    "The log is what people read when something goes wrong.",
		Source: ofLightning + "success, always, info, warn, error, debug",
	}, logLevels},
	{suite.Case{
		ID: "S5.13", Level: suite.Must, Title: "a log line may say anything: several values, objects, no text at all",
		Why:    "console.log takes what it is given, and a refused line is missing.",
		Source: ofLightning + "message is a list of any JSON",
	}, logAnything},
	{suite.Case{
		ID: "S5.14", Level: suite.Should, Title: "a log line of a step that was not started is refused, and the topic stays",
		Why:    "It would be shown nowhere; the refusal tells the worker.",
		Source: ofLightning + `{"step_id":["must be associated with the run"]}`,
	}, logUnknownStep},
	{suite.Case{
		ID: "S5.15", Level: suite.Must, Title: "a batch of log lines is taken",
		Why:    "A job that logs a lot would otherwise wait for an answer to each line.",
		Source: ofLightning + "run:batch_logs; " + ofWorker + "WORKER_BATCH_LOGS",
	}, logBatch},
	{suite.Case{
		ID: "S5.16", Level: suite.Should, Title: "a batch with a bad line is refused, and the topic stays",
		Why:    "The worker sends the good ones one by one then; it must hear that there is reason to.",
		Source: ofLightning + "one bad line refuses the whole batch",
	}, badBatch},
	{suite.Case{
		ID: "S5.17", Level: suite.Must, Title: "pushes that are sent at once are answered in their order",
		Why:    "A log out of order tells another story; a worker sends the next line before it has the answer to the last.",
		Source: ofPhoenix + "a channel handles its messages one by one",
	}, answeredInOrder},
	{suite.Case{
		ID: "S5.18", Level: suite.Must, Title: "a run is completed with each of the six reasons",
		Why:    "A reason that is refused leaves the run open for ever.",
		Source: ofLightning + "success, fail, crash, kill, cancel, exception",
	}, reasons},
	{suite.Case{
		ID: "S5.19", Level: suite.Should, Title: "a run:complete with a reason that there is not is refused, and the run goes on",
		Why:    "A run whose end nobody understands looks as if it were executed, for ever.",
		Source: ofMock + `{"state":["is invalid"]}`,
	}, unknownReason},
	{suite.Case{
		ID: "S5.20", Level: suite.Must, Title: "a second run:complete is refused, and says that the run is already over",
		Why:    "A worker that did not hear the answer says it again, and knows by the word already that the first one counted.",
		Source: ofLightning + `{"state":["already in completed state"]}`,
	}, completeTwice},
	{suite.Case{
		ID: "S5.21", Level: suite.Must, Title: "a run is completed with the output of a step as its final dataclip",
		Why:    "It is the result that people, and webhooks, get.",
		Source: ofLightning + "final_dataclip_id; " + ofWorker + "final_state beside it",
	}, finalDataclip},
	{suite.Case{
		ID: "S5.22", Level: suite.Should, Title: "a final dataclip that nobody knows is refused, and the run can be completed without",
		Why:    "The result would be a dataclip that there is not.",
		Source: ofMock + `{"errors":{"final_dataclip_id":["does not exist"]}}`,
	}, unknownFinalDataclip},
	{suite.Case{
		ID: "S5.23", Level: suite.Must, Title: "fields that newer workers send are taken",
		Why:    "Each release of a worker tells a little more; a refusal would end every run.",
		Source: ofWorker + "1.29: dataclip_size_mb, webhook_response; fields to come",
	}, newerFields},
	{suite.Case{
		ID: "S5.24", Level: suite.Should, Title: "a NUL in a log line harms its own topic at most, and the run can be completed",
		Why:    "Data from files and databases has them, and PostgreSQL stores none.",
		Source: ofMock + "the channel crashes over U+0000, as PostgreSQL refuses it; the worker joins again and leaves it out",
	}, nulInLog},
}

func startTwice(s *session) {
	r, _ := s.started(1)
	r.must("run:start", payload{"timestamp": now()}.String())
	r.must("run:complete", completed)
}

// names wants an answer to name the step.
func (s *session) names(response []byte, step string) {
	var got struct {
		ID string `json:"step_id"`
	}
	if json.Unmarshal(response, &got) != nil || got.ID != step {
		s.t.Fatalf(`the response {"step_id":"`+step+`"}`, "%s", short(response))
	}
}

func oneStep(s *session) {
	r, nodes := s.started(1)
	step := uuid.NewString()
	s.names(r.must("step:start", stepStart(step, nodes[0], nil)), step)
	output := payload{"output_dataclip": `{"data":1}`, "output_dataclip_id": uuid.NewString()}
	s.names(r.must("step:complete", stepComplete(step, nodes[0], output)), step)
	r.must("run:complete", completed)
}

func stepTwice(s *session) {
	r, nodes := s.started(1)
	step := r.startStep(nodes[0], nil)
	r.refused("step:start", stepStart(step, nodes[0], nil))
	r.completeStep(step, nodes[0])
}

func stepCompleteTwice(s *session) {
	r, nodes := s.started(1)
	step := r.startStep(nodes[0], nil)
	output := payload{"output_dataclip": `{"data":1}`, "output_dataclip_id": uuid.NewString()}
	again := stepComplete(step, nodes[0], output)
	r.must("step:complete", again)
	r.refused("step:complete", again)
	r.must("run:complete", completed)
}

func unknownStep(s *session) {
	r, nodes := s.started(1)
	output := payload{"output_dataclip": `{"data":1}`, "output_dataclip_id": uuid.NewString()}
	r.refused("step:complete", stepComplete(uuid.NewString(), nodes[0], output))
	r.must("run:complete", completed)
}

// output completes a step with an output in this form, and has the next step take it as its input.
func output(s *session, form any) {
	r, nodes := s.started(2)
	step, clip := r.startStep(nodes[0], nil), uuid.NewString()
	r.must("step:complete", stepComplete(step, nodes[0], payload{"output_dataclip": form, "output_dataclip_id": clip}))
	r.startStep(nodes[1], payload{"input_dataclip_id": clip})
}

func textOutput(s *session)   { output(s, `{"data":{"text":"a \"quoted\" one"}}`) }
func objectOutput(s *session) { output(s, payload{"data": payload{"text": `a "quoted" one`}}) }

func withheldOutput(s *session) {
	r, nodes := s.started(1)
	step := r.startStep(nodes[0], nil)
	r.must("step:complete", stepComplete(step, nodes[0], payload{"output_dataclip_error": "DATACLIP_TOO_LARGE"}))
	r.must("run:complete", completed)
}

func chained(s *session) {
	_, _, r := s.claimed(mockserver.Run{Plan: plan(2), Dataclip: json.RawMessage(`{"data":1}`)})
	nodes := r.jobs()
	r.must("run:start", payload{"timestamp": now()}.String())
	first := payload{"input_dataclip_id": r.input()}
	clip := r.completeStep(r.startStep(nodes[0], first), nodes[0])
	r.completeStep(r.startStep(nodes[1], payload{"input_dataclip_id": clip}), nodes[1])
}

func unknownInput(s *session) {
	r, nodes := s.started(1)
	r.refused("step:start", stepStart(uuid.NewString(), nodes[0], payload{"input_dataclip_id": uuid.NewString()}))
	r.startStep(nodes[0], nil)
}

func logLevels(s *session) {
	r, nodes := s.started(1)
	step := r.startStep(nodes[0], nil)
	for _, level := range []string{"success", "always", "info", "warn", "error", "debug"} {
		r.must("run:log", logLine("at "+level, payload{"level": level, "step_id": step}).String())
	}
	r.must("run:log", logLine("of no step", payload{"source": "R/T"}).String())
}

func logAnything(s *session) {
	r, _ := s.started(1)
	for _, message := range []any{[]any{"two", 2, nil, payload{"deep": []int{1}}}, []any{}, []any{""}, []any{"ünï 🩺 \n\t\"'"}, []any{strings.Repeat("long ", 20_000)}} {
		r.must("run:log", logLine("", payload{"message": message}).String())
	}
}

func logUnknownStep(s *session) {
	r, _ := s.started(1)
	r.refused("run:log", logLine("of whom?", payload{"step_id": uuid.NewString()}).String())
	r.must("run:log", logLine("of the run", nil).String())
}

// batch is a push of several lines.
func batch(lines ...payload) string { return payload{"logs": lines}.String() }

func logBatch(s *session) {
	r, nodes := s.started(1)
	step := r.startStep(nodes[0], nil)
	var lines []payload
	for n := range 100 {
		lines = append(lines, logLine(fmt.Sprint("line ", n), payload{"step_id": step}))
	}
	r.must("run:batch_logs", batch(lines...))
	r.must("run:batch_logs", batch(logLine("one alone", nil)))
}

func badBatch(s *session) {
	r, _ := s.started(1)
	r.refused("run:batch_logs", batch(logLine("good", nil), logLine("bad", payload{"level": "whisper"})))
	r.must("run:batch_logs", batch(logLine("good", nil)))
}

func answeredInOrder(s *session) {
	r, nodes := s.started(1)
	step := uuid.NewString()
	refs := []ref{r.send("step:start", stepStart(step, nodes[0], nil))}
	for n := range 20 {
		refs = append(refs, r.send("run:log", logLine(fmt.Sprint("line ", n), payload{"step_id": step}).String()))
	}
	output := payload{"output_dataclip": `{"data":1}`, "output_dataclip_id": uuid.NewString()}
	refs = append(refs, r.send("step:complete", stepComplete(step, nodes[0], output)), r.send("run:complete", completed))
	for n, want := range refs {
		f, err := r.c.next(patience, func(f *frame) bool { return f.topic == r.name })
		if a := (answer{f, err}); !a.ok() || f.ref != want {
			s.t.Fatalf(fmt.Sprintf("ok to the push number %d of %d, ref %s", n+1, len(refs), want), "%s, ref %s", a, f.ref)
		}
	}
}

func reasons(s *session) {
	for _, reason := range []string{"success", "fail", "crash", "kill", "cancel", "exception"} {
		r, _ := s.started(1)
		end := payload{"reason": reason, "timestamp": now(), "error_type": nil, "error_message": nil}
		if reason != "success" {
			end["error_type"], end["error_message"] = "KitError", "this is what the kit made up"
		}
		r.must("run:complete", end.String())
	}
}

func unknownReason(s *session) {
	r, _ := s.started(1)
	r.refused("run:complete", payload{"reason": "boredom", "timestamp": now()}.String())
	r.must("run:complete", completed)
}

func completeTwice(s *session) {
	r, _ := s.started(1)
	r.must("run:complete", completed)
	a := r.ask("run:complete", completed)
	if !a.refused() || !strings.Contains(string(a.payload), "already") {
		s.t.Fatalf("the second run:complete to be refused by a reply that says already", "%s", a)
	}
}

func finalDataclip(s *session) {
	r, nodes := s.started(1)
	clip := r.completeStep(r.startStep(nodes[0], nil), nodes[0])
	r.must("run:complete", payload{
		"reason": "success", "timestamp": now(), "error_type": nil, "error_message": nil,
		"final_dataclip_id": clip, "final_state": payload{"data": payload{"n": 1}},
	}.String())
}

func unknownFinalDataclip(s *session) {
	r, _ := s.started(1)
	r.refused("run:complete", payload{"reason": "success", "timestamp": now(), "final_dataclip_id": uuid.NewString()}.String())
	r.must("run:complete", completed)
}

func newerFields(s *session) {
	r, nodes := s.started(1)
	more := payload{"kit_field": payload{"a": 1}}
	step := r.startStep(nodes[0], more)
	r.must("run:log", logLine("more", more).String())
	r.must("step:complete", stepComplete(step, nodes[0], payload{
		"output_dataclip": `{"data":1}`, "output_dataclip_id": uuid.NewString(), "dataclip_size_mb": "0.1",
		"webhook_response": payload{"status": 200, "body": payload{"ok": true}}, "kit_field": 1,
	}))
	r.must("run:complete", payload{"reason": "success", "timestamp": now(), "kit_field": 1}.String())
}

func nulInLog(s *session) {
	id := s.enqueue(mockserver.Run{})
	c := s.connect()
	run := c.queue().claimRun(id)
	r := c.run(run)
	r.must("run:start", payload{"timestamp": now()}.String())
	r.ask("run:log", logLine("a NUL \x00 inside", nil).String())
	s.lives(c)
	r = c.run(run)
	r.must("run:log", logLine("none inside", nil).String())
	r.must("run:complete", completed)
}
