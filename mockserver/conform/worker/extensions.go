package worker

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// codeBeyondLease takes 2.5 s: longer than a lease of the cases, which is long enough for a busy machine.
const codeBeyondLease = `fn(state => new Promise(resolve => setTimeout(() => resolve(state), 2500)))`

// extended is a server with extensions whose times are short.
func extended() mockserver.Config {
	return mockserver.Config{
		Mode: mockserver.Extended, Lease: time.Minute, ClaimAck: time.Minute,
		StatusInterval: time.Second, StatusTimeout: 10 * time.Second, MaxWait: 2 * time.Second,
	}
}

// with changes a configuration.
func with(cfg mockserver.Config, change func(*mockserver.Config)) mockserver.Config {
	change(&cfg)
	return cfg
}

// offers reports whether a join offers the extension.
func (f seen) offers(name string) bool {
	var told struct{ Extensions map[string]int }
	f.into(&told)
	return told.Extensions[name] > 0
}

// offersLast reports whether the worker offers the extension at its last join of worker:queue.
func (l *lab) offersLast(name string) bool {
	joins := l.joins(queueTopic)
	return joins[len(joins)-1].offers(name)
}

// needs ends the case as not tried unless the worker offers all of the extensions on worker:queue.
func (l *lab) needs(names ...string) {
	for _, name := range names {
		if !l.joins(queueTopic)[0].offers(name) {
			l.Skipf("the worker does not offer the extension %s", name)
		}
	}
}

// needsOnRun is needs, on the topic of a run. The run must have been joined.
func (l *lab) needsOnRun(id, name string) {
	if !l.joins("run:" + id)[0].offers(name) {
		l.Skipf("the worker does not offer the extension %s on the topic of a run", name)
	}
}

// lightnings are the events that Lightning knows.
var lightnings = []string{
	"phx_join", "phx_leave", "heartbeat", "claim", "fetch:plan", "fetch:dataclip", "fetch:credential",
	"run:start", "run:log", "run:batch_logs", "step:start", "step:complete", "run:complete",
}

// extensionTrials are about what goes beyond Lightning. Each but the first is tried only with a worker that
// offers it.
func extensionTrials() []trial {
	return []trial{
		{Case: suite.Case{
			ID: "W6.1", Title: "a server that announces no extension sees none", Level: suite.Must,
			Why:    "A Phoenix channel crashes over an event that it does not know, with every run that was claimed on it.",
			Source: "docs/extensions: the rule, 1 to 3",
		}, do: checkPlain},
		{Case: suite.Case{
			ID: "W6.2", Title: "lease: it is renewed for as long as a run takes", Level: suite.Must,
			Why:    "The run is given to another worker otherwise, while this one goes on with it.",
			Source: "docs/extensions/lease.md",
		}, setup: setup{mock: with(extended(), func(c *mockserver.Config) { c.Lease = 2 * time.Second })}, do: func(l *lab) {
			l.needs("lease")
			record := l.execute(one(codeBeyondLease))
			l.reason(record, "success")
			if n := len(record.Owners); n != 1 || record.Owners[0].Renewals == 0 {
				l.Failf("one owner, who has renewed its lease", "%s", owners(record))
			}
		}},
		{Case: suite.Case{
			ID: "W6.3", Title: "lease: nothing is reported of a run that was lost", Level: suite.Must,
			Why:    "The run is another worker's by then, and this one's report would be taken for that one's.",
			Source: "docs/extensions/lease.md",
		}, setup: setup{
			mock:   with(extended(), func(c *mockserver.Config) { c.Lease = 2 * time.Second }),
			faults: []fault.Rule{refuse("run:renew", `{"reason":"lease_lost"}`)},
		}, do: func(l *lab) {
			l.needs("lease")
			id := l.enqueue(one(codeBeyondLease))
			l.await("run:renew", func() bool {
				renewals := l.sent("run:renew")
				if len(renewals) == 0 {
					return false
				}
				_, answered := l.answered(renewals[0]) // before that, the fault may not have struck yet
				return answered
			})
			refused := l.sent("run:renew")[0]
			l.server.ClearFaults() // who is given it next may have it
			l.watch(3 * time.Second)
			for _, f := range l.where(func(f seen) bool { return f.sent && f.run() == id && f.joinRef == refused.joinRef }) {
				if f.event != "phx_leave" && f.event != "run:renew" && f.at.Sub(refused.at) > crossing {
					l.Fatalf("nothing about the run after its renewal was refused", "%s", f.event)
				}
			}
		}},
		{Case: suite.Case{
			ID: "W6.4", Title: "release: a run that is cut off by a second signal is returned", Level: suite.Should,
			Why:    "Another worker can do it now, instead of nobody, ever.",
			Source: "docs/extensions/release.md",
		}, setup: setup{mock: extended()}, do: func(l *lab) {
			l.needs("release")
			id := l.enqueue(one(codeLong))
			l.awaitStart(id)
			l.signal()
			l.watch(betweenSignals)
			l.signal()
			l.awaitExit("the worker to end within ten seconds of the second signal")
			returned := func() bool {
				first := l.record(id).Owners[0]
				return first.End == mockserver.Released && first.ReleaseReason == "requeue"
			}
			if l.until(stopTime, returned) != nil {
				l.Failf("run:release with the reason requeue", "%s", owners(l.record(id)))
			}
		}},
		{Case: suite.Case{
			ID: "W6.5", Title: "longpoll: a claim waits at the server, and is answered as soon as there is a run", Level: suite.Must,
			Why:    "A worker that offers it, and asks without wait_ms, makes the server wait for nobody.",
			Source: "docs/extensions/longpoll.md",
		}, setup: setup{mock: with(extended(), func(c *mockserver.Config) { c.WakeDebounce = time.Hour }), backoff: [2]time.Duration{time.Second, time.Second}}, do: checkLongPoll},
		{Case: suite.Case{
			ID: "W6.6", Title: "claim_ack: a run whose answer comes too late is let go, and its slot freed", Level: suite.Must,
			Why:    "It is available again by then, and would be executed twice.",
			Source: "docs/extensions/claim-ack.md",
		}, setup: setup{
			mock:   with(extended(), func(c *mockserver.Config) { c.ClaimAck = 300 * time.Millisecond }),
			faults: []fault.Rule{{Event: "claim", Skip: 1, Action: fault.Delay, Delay: time.Second}},
		}, do: func(l *lab) {
			l.needs("claim_ack")
			l.awaitClaim()
			record := l.execute(one(codeCount))
			l.reason(record, "success")
			if n := len(record.Owners); n < 2 || record.Owners[0].End != mockserver.NotJoined { // on a busy machine the second may be late as well
				l.Failf("two owners at least, of whom the first came too late", "%s", owners(record))
			}
		}},
		{Case: suite.Case{
			ID: "W6.7", Title: "status: it is told after the join, and as often as the server asks", Level: suite.Must,
			Why:    "The server takes the runs of a worker that is silent, and gives them to others.",
			Source: "docs/extensions/status.md",
		}, setup: setup{mock: extended(), capacity: 2}, do: checkStatus},
		{Case: suite.Case{
			ID: "W6.8", Title: "status: a worker that stops says that it is draining", Level: suite.Must,
			Why:    "The server answers its waiting claims and gives it nothing more.",
			Source: "docs/extensions/status.md",
		}, setup: setup{mock: extended()}, do: func(l *lab) {
			l.needs("status")
			id := l.enqueue(one(codeBeyondLease))
			l.awaitStart(id)
			l.signal()
			l.await("worker:status with draining: true", func() bool {
				return slices.ContainsFunc(l.sent("worker:status"), func(f seen) bool {
					var told struct{ Draining bool }
					f.into(&told)
					return told.Draining
				})
			})
		}},
		{Case: suite.Case{
			ID: "W6.9", Title: "drain: it claims no more, finishes its runs, and ends", Level: suite.Must,
			Why:    "A pool that does not drain cannot be upgraded without cutting runs off.",
			Source: "docs/extensions/drain.md",
		}, setup: setup{mock: extended(), capacity: 2}, do: checkDrain},
		{Case: suite.Case{
			ID: "W6.10", Title: "cancel: a run that is cancelled ends with cancel, soon", Level: suite.Must,
			Why:    "Who cancels a run wants it to stop, not to be told that it has.",
			Source: "docs/extensions/cancel.md",
		}, setup: setup{mock: extended()}, do: func(l *lab) {
			id := l.enqueue(one(codeLong))
			l.awaitStart(id)
			l.needsOnRun(id, "cancel")
			if err := l.server.Cancel(id, "The order was withdrawn"); err != nil {
				l.Fatalf("the worker to have agreed on cancel", "%v", err)
			}
			l.awaitWithin(5*time.Second, "run:complete within five seconds", func() bool { return l.record(id).State.Final() })
			l.reason(l.record(id), "cancel")
		}},
		{Case: suite.Case{
			ID: "W6.11", Title: "notify: a message to a run that has no use for it does no harm", Level: suite.Must,
			Why:    "The server cannot know what a job listens to.",
			Source: "docs/extensions/notify.md",
		}, setup: setup{mock: extended()}, do: func(l *lab) {
			id := l.enqueue(chain(codeWait, codeCount))
			l.awaitStart(id)
			l.needsOnRun(id, "notify")
			if err := l.server.Notify(id, json.RawMessage(`{"speed":2}`)); err != nil {
				l.Fatalf("the worker to have agreed on notify", "%v", err)
			}
			record := l.awaitEnd(id)
			l.reason(record, "success")
			if n := len(l.joins("run:" + id)); n != 1 {
				l.Failf("one join of the run's topic", "%d", n)
			}
		}},
		{Case: suite.Case{
			ID: "W6.12", Title: "an extension whose push crashes the topic is not offered again", Level: suite.Must,
			Why:    "A server that announces what it does not have would crash over it for ever.",
			Source: "docs/extensions: the rule, 4",
		}, setup: setup{mock: extended(), faults: []fault.Rule{{Event: "worker:status", Action: fault.Crash, Count: -1}}}, do: func(l *lab) {
			l.needs("status")
			l.await("worker:status", func() bool { return len(l.sent("worker:status")) > 0 })
			// Where a claim was under way as well, the worker cannot know which of them it was, and may try once more.
			l.await("a join of worker:queue that does not offer status", func() bool { return !l.offersLast("status") })
			before := len(l.sent("worker:status"))
			l.watch(1500 * time.Millisecond)
			if n := len(l.sent("worker:status")) - before; n > 0 {
				l.Failf("no worker:status after a join that has not offered it", "%d", n)
			}
			l.reason(l.execute(one(codeCount)), "success")
		}},
		{Case: suite.Case{
			ID: "W6.13", Title: "attempt: a run that was lost again and again is ended, and not tried for ever", Level: suite.Must,
			Why:    "A run that kills its workers goes round, and takes one worker after the other with it.",
			Source: "docs/extensions/attempt.md",
		}, setup: setup{
			mock:   with(extended(), func(c *mockserver.Config) { c.Lease = 700 * time.Millisecond }),
			faults: []fault.Rule{{Event: "run:renew", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"lease_lost"}`), Count: -1}},
		}, do: func(l *lab) {
			l.needs("attempt", "lease")
			record := l.execute(one(codeLong))
			if record.Reason != "exception" || record.Attempt < 2 {
				l.Failf("an exception at a later attempt than the first", "%s at attempt %d", record.Reason, record.Attempt)
			}
		}},
	}
}

// checkPlain has the worker execute a run on a server like Lightning's.
func checkPlain(l *lab) {
	l.reason(l.execute(one(codeLog)), "success")
	l.watch(1200 * time.Millisecond)
	for _, f := range l.where(func(f seen) bool { return f.sent }) {
		if !slices.Contains(lightnings, f.event) {
			l.Failf("no event that Lightning does not know", "%s on %s", f.event, f.topic)
		}
		if f.event == "claim" && f.has("wait_ms") {
			l.Failf("no wait_ms in a claim", "%s", f.payload)
		}
	}
}

// checkLongPoll queues a run of which nobody is told.
func checkLongPoll(l *lab) {
	l.needs("longpoll")
	waits := func() bool { return l.server.Stats().Extended.Waiting > 0 }
	l.await("a claim with wait_ms", waits)
	for _, claim := range l.sent("claim") {
		var told struct {
			WaitMS *int `json:"wait_ms"`
		}
		if claim.into(&told); told.WaitMS != nil && *told.WaitMS > int(l.setup.mock.MaxWait.Milliseconds()) {
			l.Failf("a wait_ms of max_wait_ms at the most", "%d", *told.WaitMS)
		}
	}
	l.await("a claim with wait_ms", waits)
	id := l.enqueue(one(codeCount))
	queued := time.Now()
	l.reason(l.awaitEnd(id), "success")
	if took := l.record(id).ClaimedAt.Sub(queued); took > 500*time.Millisecond {
		l.Failf("the waiting claim to take the run at once", "%v later", took.Round(time.Millisecond))
	}
}

func checkStatus(l *lab) {
	l.needs("status")
	id := l.enqueue(one(codeBeyondLease))
	l.awaitStart(id)
	told := func(f seen) (s struct {
		Groups   map[string]struct{ Slots, Open, Claimed, Running *int }
		Runs     *[]string
		Draining *bool
	},
	) {
		f.into(&s)
		return s
	}
	l.awaitWithin(4*time.Second, "worker:status every second, with the run in runs", func() bool {
		all := l.sent("worker:status")
		return len(all) >= 3 && slices.ContainsFunc(all, func(f seen) bool {
			runs := told(f).Runs
			return runs != nil && slices.Contains(*runs, id)
		})
	})
	for _, f := range l.sent("worker:status") {
		s := told(f)
		if s.Draining == nil || s.Runs == nil || len(s.Groups) == 0 {
			l.Fatalf("groups, runs and draining in a status", "%s", f.payload)
		}
		for name, g := range s.Groups {
			if g.Slots == nil || g.Open == nil || g.Claimed == nil || g.Running == nil || *g.Slots != *g.Open+*g.Claimed+*g.Running {
				l.Fatalf("slots = open + claimed + running of the group "+name, "%s", f.payload)
			}
		}
	}
}

func checkDrain(l *lab) {
	l.needs("drain")
	id := l.enqueue(chain(codeWait, codeWait))
	l.awaitStart(id)
	if l.server.DrainWorkers() == 0 {
		l.Fatalf("the worker to have agreed on drain", "it has not")
	}
	drained := time.Now()
	stop := l.wakeAllTheTime()
	l.reason(l.awaitEnd(id), "success")
	stop()
	for _, claim := range l.sent("claim") {
		if late := claim.at.Sub(drained); late > crossing {
			l.Fatalf("no claim after worker:drain", "one %v later", late.Round(time.Millisecond))
		}
	}
	l.awaitExit("the worker to end once its runs are over")
	l.endedWell()
}

// owners says who had a run.
func owners(record mockserver.RunRecord) string {
	text, _ := json.Marshal(record.Owners) // texts, times and numbers
	return string(text)
}
