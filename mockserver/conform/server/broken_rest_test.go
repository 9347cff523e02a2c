package server_test

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/server"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// agrees is a server that takes an extension for agreed on, on topics that begin so, whatever a worker offers.
func agrees(topic, extension string) func(*world) hooks {
	return joins(topic, func(_ *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
		channel, reply := next(offer(payload, extension))
		if channel == nil {
			return channel, reply
		}
		return channel, hide(reply, payload)
	})
}

// tells changes every reply by its text: to a join, and to a push.
func tells(old, instead string) hooks {
	change := func(r phoenix.Reply) phoenix.Reply {
		if r.Status() == "ok" && strings.Contains(string(r.Response()), old) {
			return phoenix.OK([]byte(strings.ReplaceAll(string(r.Response()), old, instead)))
		}
		return r
	}
	return hooks{
		join: func(_ *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
			channel, reply := next(payload)
			return channel, change(reply)
		},
		push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply { return change(next(p)) },
	}
}

func telling(old, instead string) func(*world) hooks {
	return func(*world) hooks { return tells(old, instead) }
}

// answersOn is a server that answers an event at once, and does nothing.
func answersOn(event, response string) func(*world) hooks {
	return func(*world) hooks {
		return hooks{push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
			if p.Event == event {
				return phoenix.OK([]byte(response))
			}
			return next(p)
		}}
	}
}

var brokenExtensions = []breakage{
	{name: "announces status without its terms", red: []string{"S6.1"}, breaks: telling(`"interval_ms":300,`, "")},
	{name: "announces another version", red: []string{"S6.1"}, breaks: telling(`"drain":{"v":1}`, `"drain":{"v":2}`)},
	{name: "takes an offer of any kind", red: []string{"S6.2"}, breaks: joins("worker:queue", func(_ *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
		if strings.Contains(string(payload), `"lease":"1"`) {
			payload = offer(nil, "lease")
		}
		return next(payload)
	})},
	{name: "lets nobody in whose offer it cannot read", red: []string{"S6.2"}, breaks: joins("worker:queue", func(_ *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
		if _, ok := get(payload, "extensions").([]any); ok {
			return nil, phoenix.Crash("no object")
		}
		return next(payload)
	})},
	{name: "heeds a release that was not agreed on", red: []string{"S6.3"}, breaks: agrees("worker:queue", "release")},
	{name: "counts no attempts", red: []string{"S6.4", "S7.9"}, breaks: func(*world) hooks {
		return hooks{push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
			reply := next(p)
			if p.Event == "claim" && reply.Status() == "ok" {
				return phoenix.OK([]byte(strings.NewReplacer(`"attempt":2`, `"attempt":1`, `"attempt":3`, `"attempt":1`).Replace(string(reply.Response()))))
			}
			return reply
		}}
	}},
	{name: "counts a postponement as an attempt", red: []string{"S6.4"}, breaks: asks("run:release", func(p map[string]any) {
		if p["reason"] == "postpone" {
			p["reason"] = "requeue"
		}
	})},
	{name: "tells everybody the attempt", red: []string{"S6.4"}, breaks: agrees("worker:queue", "attempt")},
	{name: "keeps what is returned", red: []string{"S6.3", "S6.4", "S6.5", "S6.6", "S6.7", "S6.8", "S6.9"}, breaks: answersOn("run:release", `{}`)},
	{name: "lets in again who has lost a run", red: []string{"S6.5", "S6.15", "S7.4"}, breaks: func(w *world) hooks {
		return hooks{join: func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
			channel, reply := next(payload)
			if string(reply.Response()) == `{"reason":"lease_lost"}` {
				return dummy{}, phoenix.OK([]byte(`{}`))
			}
			return channel, reply
		}}
	}},
	{name: "leaves the topic of a run open that is not its worker's any more", red: []string{"S6.6", "S7.4"}, breaks: fromServer(func(_ *link, m message) (message, bool) {
		return m, m.event() != "phx_close" || !strings.HasPrefix(m.topic(), "run:")
	})},
	{name: "does not say not_claimed", red: []string{"S6.7"}, breaks: answers("run:release", func(_ phoenix.Push, r phoenix.Reply) phoenix.Reply {
		if r.Status() == "error" {
			return phoenix.Refuse([]byte(`{"reason":"no"}`))
		}
		return r
	})},
	{name: "gives a postponed run at once", red: []string{"S6.8"}, breaks: asks("run:release", func(p map[string]any) { p["delay_ms"] = 0 })},
	{name: "forgets a postponed run", red: []string{"S6.8"}, breaks: asks("run:release", func(p map[string]any) {
		if p["delay_ms"] != 0.0 {
			p["delay_ms"] = 3_600_000
		}
	})},
	{name: "puts what is returned behind the others", red: []string{"S6.9"}, breaks: func(*world) hooks {
		returned := false
		return hooks{
			target: queued(func(n int, run *mockserver.Run) {
				if n == 2 && run.Queue == "" {
					run.Queue = "fast_lane"
				}
			}),
			push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
				returned = returned || p.Event == "run:release"
				if all := names(decoded(p.Payload)); p.Event == "claim" && returned && len(all) == 2 {
					p.Payload = edit(p.Payload, func(p map[string]any) { p["queues"] = []string{"fast_lane", "*"} })
				}
				return next(p)
			},
		}
	}},
	{name: "serves no claim that waits", red: []string{"S6.10", "S6.12"}, breaks: func(*world) hooks {
		return hooks{push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
			if get(p.Payload, "wait_ms") != nil {
				p.Payload = edit(p.Payload, func(p map[string]any) { p["queues"] = []string{"nowhere"} })
			}
			return next(p)
		}}
	}},
	{name: "has no claim wait", red: []string{"S6.10", "S6.11", "S6.12"}, breaks: asks("claim", func(p map[string]any) { delete(p, "wait_ms") })},
	{name: "has claims wait for half of their time", red: []string{"S6.11"}, breaks: asks("claim", func(p map[string]any) {
		if ms, ok := p["wait_ms"].(float64); ok {
			p["wait_ms"] = int(ms / 2)
		}
	})},
	{name: "leaves a claim that has waited without an answer", red: []string{"S6.11"}, breaks: asks("claim", func(p map[string]any) {
		if ms, ok := p["wait_ms"].(float64); ok && ms < 1000 {
			p["wait_ms"] = 19_000
		}
	})},
	{name: "answers nothing while a claim waits", red: []string{"S6.12"}, breaks: func(*world) hooks {
		return hooks{push: func(j *joined, p phoenix.Push, next pushed) phoenix.Reply {
			waits := get(p.Payload, "wait_ms") != nil && strings.Contains(j.offer, "longpoll")
			if j.count == 0 || p.Event != "claim" || waits {
				if waits {
					j.count++
				}
				return next(p)
			}
			later, deferred := p.Defer()
			time.AfterFunc(8*time.Second, func() { later.Answer(phoenix.OK([]byte(`{"runs":[]}`))) })
			return deferred
		}}
	}},
	{name: "has claims wait that did not agree", red: []string{"S6.13"}, breaks: agrees("worker:queue", "longpoll")},
	{name: "gives runs to who has gone", red: []string{"S6.14"}, breaks: func(w *world) hooks {
		ghost := false
		return hooks{
			push: func(j *joined, p phoenix.Push, next pushed) phoenix.Reply {
				if get(p.Payload, "wait_ms") != nil {
					j.count = 1
				}
				return next(p)
			},
			left: func(j *joined) { ghost = ghost || j.count > 0 },
			target: func(t *server.Target) {
				enqueue := t.Enqueue
				t.Enqueue = func(ctx context.Context, run mockserver.Run) (string, error) {
					id, err := enqueue(ctx, run)
					if ghost {
						err = w.Cancel(id, "")
					}
					return id, err
				}
			},
		}
	}},
	{
		name: "waits for ever for a claimed run to be joined", red: []string{"S6.15"},
		settings: func(s *settings) { s.extended.ClaimAck = time.Hour }, breaks: telling(`"timeout_ms":3600000`, `"timeout_ms":700`),
	},
	{name: "takes a run back that was joined in time", red: []string{"S6.3", "S6.16"}, breaks: func(w *world) hooks {
		agreed := agrees("worker:queue", "release")(w)
		agreed.push = func(j *joined, p phoenix.Push, next pushed) phoenix.Reply {
			reply := next(p)
			if p.Event != "claim" || !strings.Contains(j.offer, "claim_ack") {
				return reply
			}
			for _, run := range runsIn(reply.Response()) {
				back, _ := json.Marshal(map[string]any{"id": run.ID, "token": run.Token, "reason": "drain", "delay_ms": 0})
				time.AfterFunc(700*time.Millisecond, func() { next(phoenix.Push{Event: "run:release", Payload: back}) })
			}
			return reply
		}
		return agreed
	}},
	{name: "answers a status with null", red: []string{"S6.17"}, breaks: answers("worker:status", func(phoenix.Push, phoenix.Reply) phoenix.Reply { return phoenix.OK(nil) })},
	{
		name: "never takes a worker for silent", red: []string{"S6.18"},
		settings: func(s *settings) { s.extended.StatusTimeout = time.Hour }, breaks: telling(`"timeout_ms":3600000`, `"timeout_ms":1100`),
	},
	{name: "takes a worker for silent that never told", red: []string{"S6.19"}, breaks: func(*world) hooks {
		return hooks{push: func(j *joined, p phoenix.Push, next pushed) phoenix.Reply {
			if j.count++; j.count == 1 && strings.Contains(j.offer, `"status"`) {
				next(phoenix.Push{Event: "worker:status", Payload: []byte(`{"draining":false}`)})
			}
			return next(p)
		}}
	}},
	{name: "does not hear that a worker drains", red: []string{"S6.20"}, breaks: asks("worker:status", func(p map[string]any) { p["draining"] = false })},
}

func decoded(raw []byte) map[string]any {
	object := make(map[string]any)
	_ = json.Unmarshal(raw, &object) // then there is nothing in it
	return object
}

var brokenLeases = []breakage{
	{name: "does not say how long a run is the worker's", red: []string{"S7.1"}, breaks: func(*world) hooks {
		return hooks{push: tells(`"lease_ms":2000`, `"lease_ms":0`).withoutRenew()}
	}},
	{name: "knows leases on the queue's topic alone", red: []string{"S7.1", "S7.2", "S7.3", "S7.4", "S7.5", "S7.6", "S7.9"}, breaks: joins("run:", func(_ *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
		return next([]byte(strings.ReplaceAll(string(payload), `"lease"`, `"lent"`)))
	})},
	{name: "answers a renewal with {}", red: []string{"S7.2", "S7.5", "S7.6"}, breaks: answers("run:renew", func(_ phoenix.Push, r phoenix.Reply) phoenix.Reply {
		if r.Status() == "ok" {
			return phoenix.OK([]byte(`{}`))
		}
		return r
	})},
	{name: "renews what is over", red: []string{"S7.2"}, breaks: answers("run:renew", func(phoenix.Push, phoenix.Reply) phoenix.Reply {
		return phoenix.OK([]byte(`{"lease_ms":2000}`))
	})},
	{
		name: "has leases without an end", red: []string{"S7.3", "S7.4", "S7.9"},
		settings: func(s *settings) { s.extended.Lease = time.Hour }, breaks: telling("3600000", "2000"),
	},
	{name: "says unauthorized to who has lost a run", red: []string{"S6.15", "S7.4"}, breaks: func(*world) hooks {
		return hooks{join: func(_ *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
			channel, reply := next(payload)
			if string(reply.Response()) == `{"reason":"lease_lost"}` {
				return nil, phoenix.Refuse([]byte(`{"reason":"unauthorized"}`))
			}
			return channel, reply
		}}
	}},
	{name: "forgets a renewal", red: []string{"S7.2", "S7.5", "S7.6"}, breaks: answersOn("run:renew", `{"lease_ms":2000}`)},
	{name: "takes a lost connection for the end of a lease", red: []string{"S7.6"}, breaks: func(w *world) hooks {
		gone := make(map[string]bool)
		return hooks{
			left: func(j *joined) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if strings.HasPrefix(j.topic.Name(), "run:") && strings.Contains(j.offer, "lease") {
					gone[j.topic.Name()] = true
				}
			},
			join: func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if gone[t.Name()] {
					return nil, phoenix.Refuse([]byte(`{"reason":"lease_lost"}`))
				}
				return next(payload)
			},
		}
	}},
	{name: "holds a worker to a lease that cannot renew it", red: []string{"S7.7"}, breaks: agrees("run:", "lease")},
	{name: "gives a run again that was completed", red: []string{"S7.8"}, breaks: func(w *world) hooks {
		over := make(map[string]string)
		return hooks{push: func(j *joined, p phoenix.Push, next pushed) phoenix.Reply {
			reply := next(p)
			w.mu.Lock()
			defer w.mu.Unlock()
			if p.Event == "run:complete" && strings.Contains(j.offer, "lease") {
				over[j.run()] = w.tokens[j.run()]
			}
			if p.Event == "claim" && isEmpty(reply) {
				for id, token := range over {
					return claimed(id, token)
				}
			}
			return reply
		}}
	}},
	{name: "counts no attempt for a lease that is over", red: []string{"S7.9"}, breaks: func(*world) hooks {
		returned := false
		return hooks{push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
			returned = returned || p.Event == "run:release"
			reply := next(p)
			if p.Event == "claim" && !returned && reply.Status() == "ok" {
				return phoenix.OK([]byte(strings.ReplaceAll(string(reply.Response()), `"attempt":2`, `"attempt":1`)))
			}
			return reply
		}}
	}},
}

// withoutRenew is the push of hooks that leave renewals alone.
func (h hooks) withoutRenew() func(*joined, phoenix.Push, func(phoenix.Push) phoenix.Reply) phoenix.Reply {
	return func(j *joined, p phoenix.Push, next func(phoenix.Push) phoenix.Reply) phoenix.Reply {
		if p.Event == "run:renew" {
			return next(p)
		}
		return h.push(j, p, next)
	}
}

// cancels changes how a run is cancelled.
func cancels(do func(w *world, id, message string) error) func(*world) hooks {
	return func(w *world) hooks {
		return hooks{target: func(t *server.Target) {
			t.Cancel = func(_ context.Context, id, message string) error { return do(w, id, message) }
		}}
	}
}

// waits reports whether nobody has a run.
func (w *world) waits(id string) bool {
	record, _ := w.Inspect(id)
	return record.State == "available"
}

var brokenSteering = []breakage{
	{name: "loses the message of a cancellation", red: []string{"S8.1", "S8.3"}, breaks: cancels(func(w *world, id, _ string) error { return w.Cancel(id, "") })},
	{name: "cancels nothing that waits", red: []string{"S8.2"}, breaks: cancels(func(w *world, id, message string) error {
		if w.waits(id) {
			return nil
		}
		return w.Cancel(id, message)
	})},
	{name: "tells who is there only", red: []string{"S8.3"}, breaks: func(w *world) hooks {
		there := make(map[string]bool)
		return hooks{
			join: func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
				channel, reply := next(payload)
				there[t.Name()] = channel != nil
				return channel, reply
			},
			left: func(j *joined) { there[j.topic.Name()] = false },
			target: func(t *server.Target) {
				t.Cancel = func(_ context.Context, id, message string) error {
					if !w.waits(id) && !there["run:"+id] {
						return nil
					}
					return w.Cancel(id, message)
				}
			},
		}
	}},
	{name: "tells of a cancellation who has not agreed on it", red: []string{"S8.4"}, breaks: agrees("run:", "cancel")},
	{name: "forgets a cancellation of which it has told", red: []string{"S8.5"}, breaks: func(w *world) hooks {
		topics := make(map[string]*phoenix.Topic)
		return hooks{
			join: func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
				channel, reply := next(payload)
				if channel != nil && strings.Contains(string(payload), `"cancel"`) {
					topics[t.Name()] = t
				}
				return channel, reply
			},
			left: func(j *joined) { delete(topics, j.topic.Name()) },
			target: func(t *server.Target) {
				t.Cancel = func(_ context.Context, id, message string) error {
					if topic := topics["run:"+id]; topic != nil {
						topic.Send("run:cancel", []byte(`{"message":"`+message+`"}`))
						return nil
					}
					return w.Cancel(id, message)
				}
			},
		}
	}},
	{name: "wraps a notice", red: []string{"S8.6"}, breaks: func(w *world) hooks {
		return hooks{target: func(t *server.Target) {
			t.Notify = func(_ context.Context, id string, notice json.RawMessage) error {
				return w.Notify(id, []byte(`{"notice":`+string(notice)+`}`))
			}
		}}
	}},
	{name: "asks everybody to drain", red: []string{"S8.7"}, breaks: agrees("worker:queue", "drain")},
	{name: "asks one worker to drain", red: []string{"S8.7"}, breaks: func(*world) hooks {
		var told *link
		return hooks{fromServer: func(l *link, m message) []message {
			if m.event() == "worker:drain" {
				if told != nil && told != l {
					return nil
				}
				told = l
			}
			return []message{m}
		}}
	}},
	{name: "takes nothing from who drains", red: []string{"S8.8"}, breaks: func(w *world) hooks {
		return hooks{push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
			if w.Counts().Drains > 0 && p.Event == "run:complete" {
				return phoenix.Refuse([]byte(`{"reason":"drained"}`))
			}
			return next(p)
		}}
	}},
	{name: "knows no keys", red: []string{"S9.1"}, breaks: queues(func(_ int, run *mockserver.Run) { run.Key = "" })},
	{name: "keeps runs for a worker that has gone", red: []string{"S9.2"}, breaks: func(w *world) hooks {
		home, keyed, gone := "", false, false
		return hooks{
			target: queued(func(_ int, run *mockserver.Run) { keyed = keyed || run.Key != "" }),
			left:   func(j *joined) { gone = gone || keyed && home == j.topic.Client() },
			push: func(j *joined, p phoenix.Push, next pushed) phoenix.Reply {
				if gone && p.Event == "claim" {
					return phoenix.OK([]byte(`{"runs":[]}`))
				}
				reply := next(p)
				if p.Event == "claim" && !isEmpty(reply) {
					home = j.topic.Client()
				}
				return reply
			},
		}
	}},
}
