package server_test

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/server"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

type (
	pushed   = func(phoenix.Push) phoenix.Reply
	joinedTo = func(payload []byte) (phoenix.Channel, phoenix.Reply)
)

// asks changes what an event asks for.
func asks(event string, change func(p map[string]any)) func(*world) hooks {
	return func(*world) hooks {
		return hooks{push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
			if p.Event == event && !p.Binary {
				p.Payload = edit(p.Payload, change)
			}
			return next(p)
		}}
	}
}

// answers changes what is answered to an event, if that is no crash and does not come later.
func answers(event string, change func(p phoenix.Push, r phoenix.Reply) phoenix.Reply) func(*world) hooks {
	return func(*world) hooks {
		return hooks{push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
			reply := next(p)
			if p.Event == event && (reply.Status() == "ok" || reply.Status() == "error") {
				return change(p, reply)
			}
			return reply
		}}
	}
}

// refuses makes a server refuse an event of which something is the case.
func refuses(event string, which func(payload string) bool) func(*world) hooks {
	return func(*world) hooks {
		return hooks{push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
			if p.Event == event && which(string(p.Payload)) {
				return phoenix.Refuse([]byte(`{"errors":{"kit":["no"]}}`))
			}
			return next(p)
		}}
	}
}

// swallows accepts what should be refused with these words.
func swallows(event, words string) func(*world) hooks {
	return answers(event, func(_ phoenix.Push, r phoenix.Reply) phoenix.Reply {
		if r.Status() == "error" && strings.Contains(string(r.Response()), words) {
			return phoenix.OK(nil)
		}
		return r
	})
}

// joins changes what is made of a join of topics that begin so.
func joins(topic string, do func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply)) func(*world) hooks {
	return func(*world) hooks {
		return hooks{join: func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
			if strings.HasPrefix(t.Name(), topic) {
				return do(t, payload, next)
			}
			return next(payload)
		}}
	}
}

// queues changes what is put into the queue; n counts from 1.
func queues(change func(n int, run *mockserver.Run)) func(*world) hooks {
	return func(*world) hooks { return hooks{target: queued(change)} }
}

func queued(change func(n int, run *mockserver.Run)) func(t *server.Target) {
	n := 0
	return func(t *server.Target) {
		enqueue := t.Enqueue
		t.Enqueue = func(ctx context.Context, run mockserver.Run) (string, error) {
			n++
			change(n, &run)
			return enqueue(ctx, run)
		}
	}
}

// claimed answers a claim with one run.
func claimed(id, token string) phoenix.Reply {
	response, _ := json.Marshal(map[string]any{"runs": []claimedRun{{id, token}}})
	return phoenix.OK(response)
}

func isEmpty(r phoenix.Reply) bool { return string(r.Response()) == `{"runs":[]}` }

func names(p map[string]any) []string {
	var all []string
	list, _ := p["queues"].([]any)
	for _, name := range list {
		text, _ := name.(string)
		all = append(all, text)
	}
	return all
}

func contains(text string) func(string) bool {
	return func(payload string) bool { return strings.Contains(payload, text) }
}

var brokenRuns = []breakage{
	{name: "announces on a run's topic what nobody has offered", red: []string{"S4.1"}, breaks: joins("run:", func(_ *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
		channel, reply := next(payload)
		if channel != nil && get(payload, "extensions") == nil {
			reply = phoenix.OK([]byte(`{"extensions":{"notify":{"v":1}}}`))
		}
		return channel, reply
	})},
	{name: "lets in who has no token of the run", red: []string{"S4.2"}, breaks: func(w *world) hooks {
		return hooks{join: func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
			w.mu.Lock()
			known := w.tokens[strings.TrimPrefix(t.Name(), "run:")]
			w.mu.Unlock()
			if token, _ := get(payload, "token").(string); token == "" && known != "" {
				payload = edit(payload, func(p map[string]any) { p["token"] = known })
			}
			return next(payload)
		}}
	}},
	{name: "looks at the beginning of a run's token only", red: []string{"S4.2", "S6.7"}, breaks: func(w *world) hooks {
		begins := func(payload []byte, id string) []byte {
			w.mu.Lock()
			defer w.mu.Unlock()
			if token, _ := get(payload, "token").(string); w.tokens[id] != "" && strings.HasPrefix(token, w.tokens[id]) {
				return edit(payload, func(p map[string]any) { p["token"] = w.tokens[id] })
			}
			return payload
		}
		return hooks{
			join: func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
				return next(begins(payload, strings.TrimPrefix(t.Name(), "run:")))
			},
			push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
				if id, _ := get(p.Payload, "id").(string); p.Event == "run:release" {
					p.Payload = begins(p.Payload, id)
				}
				return next(p)
			},
		}
	}},
	{name: "takes any run's token", red: []string{"S4.3"}, breaks: func(w *world) hooks {
		return hooks{join: func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
			w.mu.Lock()
			token, _ := get(payload, "token").(string)
			id := strings.TrimPrefix(t.Name(), "run:")
			for other, known := range w.tokens {
				if other != id && known == token && w.tokens[id] != "" {
					token = w.tokens[id]
				}
			}
			w.mu.Unlock()
			if strings.HasPrefix(t.Name(), "run:") && token != "" {
				payload = edit(payload, func(p map[string]any) { p["token"] = token })
			}
			return next(payload)
		}}
	}},
	{name: "has every run", red: []string{"S4.4"}, breaks: joins("run:", func(_ *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
		channel, reply := next(payload)
		if strings.Contains(string(reply.Response()), "not_found") {
			return dummy{}, phoenix.OK([]byte(`{}`))
		}
		return channel, reply
	})},
	{name: "takes a lost connection for the end of a run", red: []string{"S4.5", "S7.6"}, breaks: func(w *world) hooks {
		times, there := make(map[string]int), make(map[string]int)
		return hooks{
			connect: func(_ url.Values, next func() (string, error)) (string, error) {
				name, err := next()
				w.mu.Lock()
				times[name]++
				w.mu.Unlock()
				return name, err
			},
			join: func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
				w.mu.Lock()
				key := t.Name() + t.Client()
				again := strings.HasPrefix(t.Name(), "run:") && there[key] > 0 && there[key] < times[t.Client()]
				there[key] = times[t.Client()]
				w.mu.Unlock()
				if again && !strings.Contains(string(payload), "cancel") {
					return nil, phoenix.Refuse([]byte(`{"reason":"unauthorized"}`))
				}
				return next(payload)
			},
		}
	}},
	{name: "leaves the id out of the plan", red: []string{"S4.6"}, breaks: changedPlan(func(p map[string]any) { delete(p, "id") })},
	{name: "leaves the adaptors out of the plan", red: []string{"S4.6"}, breaks: changedPlan(func(p map[string]any) {
		jobs, _ := p["jobs"].([]any)
		for _, job := range jobs {
			if fields, ok := job.(map[string]any); ok {
				delete(fields, "adaptor")
			}
		}
	})},
	{name: "leaves a trigger out of the plan", red: []string{"S4.6"}, breaks: changedPlan(func(p map[string]any) { delete(p, "triggers") })},
	{name: "forgets the input of a plan that was fetched", red: []string{"S4.7"}, breaks: func(*world) hooks {
		return hooks{push: func(j *joined, p phoenix.Push, next pushed) phoenix.Reply {
			reply := next(p)
			if p.Event == "fetch:plan" {
				if j.count++; j.count == 2 {
					return phoenix.OK(edit(reply.Response(), func(p map[string]any) { p["name"] = "another" }))
				}
			}
			return reply
		}}
	}},
	{name: "sends the input as text", red: []string{"S4.8"}, breaks: answers("fetch:dataclip", func(_ phoenix.Push, r phoenix.Reply) phoenix.Reply { return phoenix.OK(r.Response()) })},
	{name: "sends half of the input", red: []string{"S4.8"}, breaks: answers("fetch:dataclip", func(phoenix.Push, phoenix.Reply) phoenix.Reply { return phoenix.Bytes([]byte(`{"data":{}}`)) })},
	{name: "wraps credentials", red: []string{"S4.9"}, breaks: answers("fetch:credential", func(_ phoenix.Push, r phoenix.Reply) phoenix.Reply {
		if r.Status() == "ok" {
			return phoenix.OK([]byte(`{"body":` + string(r.Response()) + `}`))
		}
		return r
	})},
	{name: "crashes over an unknown credential", red: []string{"S4.10"}, breaks: answers("fetch:credential", func(_ phoenix.Push, r phoenix.Reply) phoenix.Reply {
		if r.Status() == "error" {
			return phoenix.Crash("no credential")
		}
		return r
	})},
	{name: "ends one run with another", red: []string{"S4.11"}, breaks: func(*world) hooks {
		over, there := false, make(map[string]int) // how many topics of runs each worker is on
		return hooks{
			left: func(j *joined) {
				if there[j.topic.Client()]--; j.run() != j.topic.Name() && there[j.topic.Client()] > 0 {
					over = true
				}
			},
			join: func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
				if strings.HasPrefix(t.Name(), "run:") {
					there[t.Client()]++
				}
				return next(payload)
			},
			push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
				if over && p.Event == "run:log" {
					return phoenix.Refuse([]byte(`{"reason":"over"}`))
				}
				return next(p)
			},
		}
	}},
	{name: "takes 20 topics a socket", red: []string{"S4.12"}, settings: func(s *settings) { s.phoenix.MaxTopics = 20 }},
	{name: "gives a run a minute longer than it says", red: []string{"S4.13", "S4.14"}, breaks: func(*world) hooks {
		return hooks{
			target: queued(func(_ int, run *mockserver.Run) {
				run.Plan = json.RawMessage(strings.ReplaceAll(string(run.Plan), `"run_timeout_ms":1000`, `"run_timeout_ms":61000`))
			}),
			push: answers("fetch:plan", func(_ phoenix.Push, r phoenix.Reply) phoenix.Reply {
				return phoenix.OK([]byte(strings.ReplaceAll(string(r.Response()), `"run_timeout_ms":61000`, `"run_timeout_ms":1000`)))
			})(nil).push,
		}
	}},
	{name: "never looks for what is overdue", red: []string{"S4.14"}, settings: func(s *settings) { s.lightning.JanitorInterval = 24 * time.Hour }},
}

func changedPlan(change func(p map[string]any)) func(*world) hooks {
	return answers("fetch:plan", func(_ phoenix.Push, r phoenix.Reply) phoenix.Reply { return phoenix.OK(edit(r.Response(), change)) })
}

var brokenEvents = []breakage{
	{name: "takes no versions", red: []string{
		"S2.9", "S5.1", "S5.2", "S5.3", "S5.4", "S5.5", "S5.6", "S5.7", "S5.8", "S5.9", "S5.11", "S5.12", "S5.13", "S5.14", "S5.15", "S5.16", "S5.17", "S5.18", "S5.19", "S5.20", "S5.21", "S5.22", "S5.23",
	}, breaks: refuses("run:start", contains(`"versions"`))},
	{name: "takes one run:start", red: []string{"S5.2"}, breaks: func(w *world) hooks {
		begun := make(map[string]bool)
		return hooks{push: func(j *joined, p phoenix.Push, next pushed) phoenix.Reply {
			if p.Event == "run:start" {
				key := j.topic.Name() + j.topic.Client()
				w.mu.Lock()
				again := begun[key]
				begun[key] = true
				w.mu.Unlock()
				if again {
					return phoenix.Refuse([]byte(`{"state":["already started"]}`))
				}
			}
			return next(p)
		}}
	}},
	{name: "does not name the step that has begun", red: []string{"S5.3"}, breaks: answers("step:start", unnamed)},
	{name: "does not name the step that has ended", red: []string{"S5.3"}, breaks: answers("step:complete", unnamed)},
	{name: "has a step twice", red: []string{"S5.4"}, breaks: swallows("step:start", "taken")},
	{name: "ends a step twice", red: []string{"S5.5"}, breaks: swallows("step:complete", "taken")},
	{name: "ends steps that were not started", red: []string{"S5.6"}, breaks: swallows("step:complete", "not found")},
	{name: "cannot read a quote in an output", red: []string{"S5.7"}, breaks: refuses("step:complete", contains(`\\\"quoted`))},
	{name: "knows texts as outputs only", red: []string{"S5.8"}, settings: func(s *settings) { s.lightning.Dataclips = mockserver.TextDataclips }},
	{name: "needs an output", red: []string{"S5.9"}, breaks: refuses("step:complete", func(payload string) bool { return !strings.Contains(payload, `"output_dataclip"`) })},
	{name: "does not know the run's input", red: []string{"S5.10"}, breaks: func(w *world) hooks {
		return hooks{push: func(j *joined, p phoenix.Push, next pushed) phoenix.Reply {
			reply := next(p)
			input, _ := get(p.Payload, "input_dataclip_id").(string)
			if plan := next(phoenix.Push{Event: "fetch:plan"}); p.Event == "step:start" && input != "" && get(plan.Response(), "dataclip_id") == input {
				return phoenix.Refuse([]byte(`{"input_dataclip_id":["does not exist"]}`))
			}
			return reply
		}}
	}},
	{name: "takes any input of a step", red: []string{"S5.11"}, breaks: swallows("step:start", "input_dataclip_id")},
	{name: "knows five levels", red: []string{"S5.12"}, breaks: refuses("run:log", contains(`"level":"debug"`))},
	{name: "takes no empty line", red: []string{"S5.13"}, breaks: refuses("run:log", contains(`"message":[]`))},
	{name: "takes lines of any step", red: []string{"S5.14"}, breaks: swallows("run:log", "associated")},
	{name: "takes batches of 50 lines", red: []string{"S5.15"}, breaks: refuses("run:batch_logs", func(payload string) bool { return strings.Count(payload, `"message"`) > 50 })},
	{name: "takes a batch without its bad lines", red: []string{"S5.16"}, breaks: swallows("run:batch_logs", "invalid")},
	{name: "answers when it has time", red: []string{"S5.17"}, breaks: func(*world) hooks {
		return hooks{push: func(j *joined, p phoenix.Push, next pushed) phoenix.Reply {
			reply := next(p)
			if j.count++; p.Event != "run:log" || j.count%5 != 0 || reply.Status() != "ok" {
				return reply
			}
			later, deferred := p.Defer()
			time.AfterFunc(10*time.Millisecond, func() { later.Answer(reply) })
			return deferred
		}}
	}},
	{name: "knows five reasons", red: []string{"S5.18"}, breaks: refuses("run:complete", contains(`"reason":"kill"`))},
	{name: "takes any reason", red: []string{"S5.19"}, breaks: asks("run:complete", func(p map[string]any) {
		if p["reason"] == "boredom" {
			p["reason"] = "fail"
		}
	})},
	{name: "completes a run twice", red: []string{"S4.14", "S5.20"}, breaks: swallows("run:complete", "already")},
	{name: "does not say that a run is over already", red: []string{"S5.20"}, breaks: answers("run:complete", func(_ phoenix.Push, r phoenix.Reply) phoenix.Reply {
		if r.Status() == "error" {
			return phoenix.Refuse([]byte(`{"state":["no"]}`))
		}
		return r
	})},
	{name: "takes no final dataclip", red: []string{"S5.21"}, breaks: refuses("run:complete", func(payload string) bool {
		return strings.Contains(payload, "final_dataclip_id") && strings.Contains(payload, "final_state")
	})},
	{name: "takes any final dataclip", red: []string{"S5.22"}, breaks: asks("run:complete", func(p map[string]any) {
		if p["final_state"] == nil && p["error_type"] == nil {
			delete(p, "final_dataclip_id")
		}
	})},
	{name: "refuses fields that are new", red: []string{"S5.23"}, breaks: refuses("step:complete", contains("kit_field"))},
	{name: "falls over a NUL", red: []string{"S5.24"}, breaks: fromClient(func(l *link, m message) (message, bool) {
		if strings.Contains(string(m.data), `\u0000`) && m.event() == "run:log" {
			l.cut()
		}
		return m, true
	})},
}

func unnamed(_ phoenix.Push, r phoenix.Reply) phoenix.Reply {
	if r.Status() == "ok" {
		return phoenix.OK(nil)
	}
	return r
}
