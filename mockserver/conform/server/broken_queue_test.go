package server_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/server"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

var brokenQueue = []breakage{
	{name: "announces what nobody has offered", red: []string{"S3.1"}, breaks: joins("worker:queue", func(_ *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
		channel, reply := next(payload)
		if get(payload, "queues") != nil && !strings.Contains(string(payload), "extensions") {
			reply = phoenix.OK([]byte(`{"extensions":{"drain":{"v":1}}}`))
		}
		return channel, reply
	})},
	{name: "is slow to say that there is nothing", red: []string{"S3.2", "S6.12"}, breaks: func(w *world) hooks {
		said := false
		return hooks{push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
			reply := next(p)
			if p.Event != "claim" || !isEmpty(reply) || said || w.Stats().Enqueued > 0 || get(p.Payload, "wait_ms") != nil {
				return reply
			}
			said = true
			later, deferred := p.Defer()
			time.AfterFunc(8*time.Second, func() { later.Answer(reply) })
			return deferred
		}}
	}},
	{name: "gives runs without a token", red: []string{
		"S2.4", "S2.5", "S2.6", "S2.7", "S2.8", "S2.13", "S2.14", "S2.15", "S3.3", "S3.4", "S3.5", "S3.6", "S3.7", "S3.8", "S3.9", "S3.10", "S3.11", "S3.12",
		"S3.14", "S3.15", "S3.16", "S3.17", "S4", "S5", "S6.1", "S6.3", "S6.4", "S6.5", "S6.6", "S6.7", "S6.8", "S6.9", "S6.14", "S6.15", "S6.16", "S6.18", "S6.19", "S6.20", "S7",
		"S8.1", "S8.2", "S8.3", "S8.4", "S8.5", "S8.6", "S8.8", "S9",
	}, breaks: answers("claim", func(_ phoenix.Push, r phoenix.Reply) phoenix.Reply {
		return phoenix.OK([]byte(strings.ReplaceAll(string(r.Response()), `"token"`, `"secret"`)))
	})},
	{name: "gives twice what is demanded", red: []string{"S3.4", "S3.15"}, breaks: asks("claim", func(p map[string]any) {
		if n, ok := p["demand"].(float64); ok {
			p["demand"] = 2 * n
		}
	})},
	{name: "gives one where nothing is demanded", red: []string{"S3.4"}, breaks: asks("claim", func(p map[string]any) {
		if p["demand"] == 0.0 {
			p["demand"] = 1
		}
	})},
	{name: "gives one run at most", red: []string{"S3.5"}, breaks: asks("claim", func(p map[string]any) {
		if n, ok := p["demand"].(float64); ok {
			p["demand"] = min(n, 1)
		}
	})},
	{name: "gives a run to two of many", red: []string{"S3.6"}, breaks: func(w *world) hooks {
		var last claimedRun
		return hooks{push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
			reply := next(p)
			if p.Event != "claim" {
				return reply
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if isEmpty(reply) && w.Stats().Workers > 20 && last.ID != "" {
				return claimed(last.ID, last.Token)
			}
			if runs := runsIn(reply.Response()); len(runs) > 0 {
				last = runs[0]
			}
			return reply
		}}
	}},
	{name: "gives a later run first", red: []string{"S3.7"}, breaks: queues(func(n int, run *mockserver.Run) {
		if n == 4 {
			run.Priority = mockserver.Immediate
		}
	})},
	{name: "knows no priority", red: []string{"S3.8"}, breaks: queues(func(_ int, run *mockserver.Run) { run.Priority = mockserver.Normal })},
	{name: "takes strict queues for a preference", red: []string{"S3.9"}, breaks: asks("claim", func(p map[string]any) {
		if all := names(p); len(all) > 0 && !slices.Contains(all, "*") {
			p["queues"] = append(all, "*")
		}
	})},
	{name: "knows no wildcard", red: []string{"S3.10"}, breaks: asks("claim", func(p map[string]any) {
		if slices.Equal(names(p), []string{"manual", "*"}) {
			p["queues"] = []string{"manual", "default"}
		}
	})},
	{name: "knows no preference", red: []string{"S3.11"}, breaks: asks("claim", func(p map[string]any) {
		if slices.Contains(names(p), "*") {
			p["queues"] = []string{"*"}
		}
	})},
	{name: "gives nothing to who names no queue", red: []string{"S3.12"}, breaks: asks("claim", func(p map[string]any) {
		if p["queues"] == nil {
			p["queues"] = []string{"nowhere"}
		}
	})},
	{name: "tells nobody of a new run", red: []string{"S3.13"}, breaks: fromServer(func(_ *link, m message) (message, bool) {
		return m, m.event() != "work-available"
	})},
	{name: "tells one worker of a new run", red: []string{"S3.13"}, breaks: func(*world) hooks {
		var told *link
		return hooks{fromServer: func(l *link, m message) []message {
			if m.event() == "work-available" {
				if told != nil && told != l {
					return nil
				}
				told = l
			}
			return []message{m}
		}}
	}},
	{name: "takes no demand for one", red: []string{"S3.14"}, breaks: asks("claim", func(p map[string]any) {
		if p["demand"] == nil {
			p["demand"] = 1
		}
	})},
	{name: "locks its queue for a worker that has gone", red: []string{"S3.15", "S9.2"}, breaks: func(w *world) hooks {
		locked, joinedRuns := false, make(map[string]bool)
		return hooks{
			push: func(_ *joined, p phoenix.Push, next pushed) phoenix.Reply {
				w.mu.Lock()
				stuck := locked && p.Event == "claim"
				w.mu.Unlock()
				if stuck {
					return phoenix.OK([]byte(`{"runs":[]}`))
				}
				return next(p)
			},
			join: func(t *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
				w.mu.Lock()
				joinedRuns[strings.TrimPrefix(t.Name(), "run:")] = true
				w.mu.Unlock()
				return next(payload)
			},
			left: func(j *joined) {
				w.mu.Lock()
				defer w.mu.Unlock()
				for id, who := range w.claimers {
					locked = locked || who == j.topic.Client() && !joinedRuns[id]
				}
			},
		}
	}},
	{name: "gives a run again while it is executed", red: []string{"S3.16", "S7.4", "S7.6"}, breaks: func(w *world) hooks {
		running := make(map[string]string) // the worker of each run that was started
		return hooks{push: func(j *joined, p phoenix.Push, next pushed) phoenix.Reply {
			reply := next(p)
			w.mu.Lock()
			defer w.mu.Unlock()
			switch {
			case p.Event == "run:start":
				running[j.run()] = j.topic.Client()
			case p.Event == "run:complete":
				delete(running, j.run())
			case p.Event == "claim" && isEmpty(reply):
				for id, worker := range running {
					if worker != j.topic.Client() && w.tokens[id] != "" {
						return claimed(id, w.tokens[id])
					}
				}
			}
			return reply
		}}
	}},
	{name: "refuses a join with an unknown field", red: []string{"S3.17"}, breaks: joins("", func(_ *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
		if get(payload, "kit_field") != nil {
			return nil, phoenix.Refuse([]byte(`{"reason":"kit_field"}`))
		}
		return next(payload)
	})},
	{name: "announces whatever is offered", red: []string{"S3.17", "S6.1"}, breaks: joins("", func(_ *phoenix.Topic, payload []byte, next joinedTo) (phoenix.Channel, phoenix.Reply) {
		channel, reply := next(payload)
		offers, _ := get(payload, "extensions").(map[string]any)
		if channel == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(offers)), func(name string) bool { return strings.HasPrefix(name, "kit") }) {
			return channel, reply
		}
		return channel, phoenix.OK(edit(reply.Response(), func(r map[string]any) {
			all, _ := r["extensions"].(map[string]any)
			told := map[string]any{"kit": map[string]any{"v": 1}, "kit_extension": map[string]any{"v": 1}}
			maps.Copy(told, all)
			r["extensions"] = told
		}))
	})},
	{name: "signs the tokens of runs with another key", signed: true, red: []string{"S3.18"}, breaks: func(*world) hooks {
		return hooks{target: func(t *server.Target) { t.PublicKey = anotherKey }}
	}},
}

// anotherKey is the public half of a key that nobody has.
const anotherKey = "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KTUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQ0FROEFNSUlCQ2dLQ0FRRUFzTTRjRzRUcmNHdXFzNzQwb3pyNQpNS1NTUy8vSmJIQ3BwMGwrSWVOVVQ0SGpuR0NCMkxtRWMyUHh4OHZQMDlpT1dhbUF1UVhYZFUzeGRSNmFpdWVqCmZVOEhWZm5HZXpCWDFuZzZMUmVLN2xxaU5XRThtRHBsYmJ0VCs4bi83aXlKMzlpZjcyVmpkWTEzVG5tbDlhQlYKeTVFZkdwVHhQb3AwU3Y4anAyYzMwZ1NQenpOTmtSU2YyYlh4dkJoeVc1ZzJjVDdXV25kYTNwRGlWRGxnejR4TwpYQVBXYlB2ZmNNTVpucVVjQWZ4WHFkMXpUSjFnbWs5TWhLdlpTanArcmMxQThTcDhScUhNVkFOSzk5K1VYY2s5CnAvWDUwakErNlByb2YyUmdmTUF3ZnVScFRiN2xZY3doSjkrMVdFRlo2bWl4VWdzdmFoTmZUbVJ1S2pnMHB5VHIKVXdJREFRQUIKLS0tLS1FTkQgUFVCTElDIEtFWS0tLS0tCg=="
