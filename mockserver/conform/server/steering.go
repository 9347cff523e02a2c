package server

import (
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

var steeringCases = []entry{
	{suite.Case{
		ID: "S8.1", Level: suite.Must, Title: "cancel: the worker of a run that is cancelled is told, with the message",
		Why:    "It is the worker that stops the run; people wait for it.",
		Source: ofOurs + "cancel.md",
	}, cancelTold},
	{suite.Case{
		ID: "S8.2", Level: suite.Must, Title: "cancel: a run that nobody has is over at once, and given to nobody",
		Why:    "What was cancelled must not be executed.",
		Source: ofOurs + "cancel.md",
	}, cancelWaiting},
	{suite.Case{
		ID: "S8.3", Level: suite.Must, Title: "cancel: a worker that joins the run later is told behind the answer to its join",
		Why:    "It may have been away for a moment when the run was cancelled.",
		Source: ofOurs + "cancel.md, remember it",
	}, cancelRemembered},
	{suite.Case{
		ID: "S8.4", Level: suite.Must, Title: "cancel: a worker that has not agreed on it is not told",
		Why:    "A push that a worker has never heard of is one of a broken server.",
		Source: ofOurs + "README.md, rule 3",
	}, cancelNotAgreed},
	{suite.Case{
		ID: "S8.5", Level: suite.Must, Title: "cancel: a cancelled run that comes back is given to nobody",
		Why:    "What was cancelled must not be executed.",
		Source: ofOurs + "cancel.md, it is over",
	}, cancelReturned},
	{suite.Case{
		ID: "S8.6", Level: suite.Must, Title: "notify: the worker of a run gets the object as it is",
		Why:    "It is for the run, and nobody else can read it.",
		Source: ofOurs + "notify.md",
	}, notify},
	{suite.Case{
		ID: "S8.7", Level: suite.Must, Title: "drain: each worker that has agreed on it is told, and no other",
		Why:    "Those who are not told are killed in the middle of their runs by the upgrade.",
		Source: ofOurs + "drain.md",
	}, drain},
	{suite.Case{
		ID: "S8.8", Level: suite.Must, Title: "drain: what a worker that is told to drain still executes is taken",
		Why:    "It ends its runs first.",
		Source: ofOurs + "drain.md",
	}, drainEnds},
}

// running takes a run to its joined topic under extensions of the run's topic; without them the case is not tried.
func (s *session) running(offers ...string) (c *client, r *topic, run given) {
	c = s.connect()
	run = c.queue().claimRun(s.enqueue(mockserver.Run{}))
	r = c.run(run, offers...)
	for _, name := range offers {
		if announced(r)[name] == nil {
			s.t.Skipf("the server announces no %s", name)
		}
	}
	return c, r, run
}

// cancel cancels a run, with the message.
func (s *session) cancel(id string) {
	if s.target.Cancel == nil {
		s.t.Skipf("the kit was not told how to cancel a run")
	}
	s.did("cancel a run", s.target.Cancel(s.t.Context(), id, message))
}

// wantCancel waits for run:cancel with the message.
func (t *topic) wantCancel() {
	var got struct{ Message string }
	f, err := t.pushed("run:cancel", patience)
	if err != nil || json.Unmarshal(f.payload, &got) != nil || got.Message != message {
		t.c.s.t.Fatalf("run:cancel with the message "+message, "%s %s", answer{f, err}, short(f.payload))
	}
}

const message = "the kit has had enough"

func cancelTold(s *session) {
	_, r, run := s.running("cancel")
	r.must("run:start", payload{"timestamp": now()}.String())
	s.cancel(run.ID)
	r.wantCancel()
	r.must("run:complete", payload{"reason": "cancel", "error_type": "RunCancelled", "error_message": message, "timestamp": now()}.String())
}

func cancelWaiting(s *session) {
	s.running("cancel")
	id := s.enqueue(mockserver.Run{})
	s.cancel(id)
	s.connect().queue().empty("the run was cancelled before anybody had it")
}

func cancelRemembered(s *session) {
	c, _, run := s.running("cancel")
	c.close()
	s.wait(moment)
	s.cancel(run.ID)
	r := s.connectAs(c.worker).run(run, "cancel")
	r.wantCancel()
}

func cancelNotAgreed(s *session) {
	s.running("cancel")
	_, r, run := s.running()
	if s.target.Cancel == nil {
		s.t.Skipf("the kit was not told how to cancel a run")
	}
	_ = s.target.Cancel(s.t.Context(), run.ID, message) // a server may say that it cannot
	r.quiet("run:cancel")
	r.must("run:start", payload{"timestamp": now()}.String())
}

func cancelReturned(s *session) {
	c := s.connect()
	q := c.with("release")
	run := q.claimRun(s.enqueue(mockserver.Run{}))
	if r := c.run(run, "cancel"); announced(r)["cancel"] == nil {
		s.t.Skipf("the server announces no cancel")
	}
	s.cancel(run.ID)
	q.must("run:release", releaseOf(run, "requeue", 0))
	s.connect().queue().empty("the run was cancelled, and then returned")
}

func notify(s *session) {
	_, r, run := s.running("notify")
	notice := json.RawMessage(`{"stock":3,"text":"ü"}`)
	if s.target.Notify == nil {
		s.t.Skipf("the kit was not told how to notify a run")
	}
	s.did("notify a run", s.target.Notify(s.t.Context(), run.ID, notice))
	f, err := r.pushed("run:notify", patience)
	if err != nil || !sameJSON(f.payload, notice) {
		s.t.Fatalf("run:notify with "+string(notice), "%s %s", answer{f, err}, short(f.payload))
	}
}

func (s *session) drain() {
	if s.target.Drain == nil {
		s.t.Skipf("the kit was not told how to drain the workers")
	}
	s.did("drain the workers", s.target.Drain(s.t.Context()))
}

func drain(s *session) {
	agreed := []*topic{s.connect().with("drain"), s.connect().with("drain")}
	plain := s.connect().queue()
	s.drain()
	for _, q := range agreed {
		if _, err := q.pushed("worker:drain", patience); err != nil {
			s.t.Fatalf("worker:drain to each worker that has agreed on it", "%v", err)
		}
	}
	plain.quiet("worker:drain")
}

func drainEnds(s *session) {
	c := s.connect()
	q := c.with("drain")
	r := c.run(q.claimRun(s.enqueue(mockserver.Run{})))
	s.drain()
	if _, err := q.pushed("worker:drain", patience); err != nil {
		s.t.Fatalf("worker:drain", "%v", err)
	}
	r.must("run:start", payload{"timestamp": now()}.String())
	r.must("run:complete", completed)
	if a := q.await(q.send(leaveEvent, `{}`)); !a.ok() {
		s.t.Fatalf("the leave of a worker that has drained to be answered with ok", "%s", a)
	}
}

var affinityCases = []entry{
	{suite.Case{
		ID: "S9.1", Level: suite.Should, Title: "affinity: runs with one key go to one of two workers",
		Why:    "It has at hand what they need: a connection, a session, a file.",
		Source: ofOurs + "pool.md, affinity",
	}, affinity},
	{suite.Case{
		ID: "S9.2", Level: suite.Should, Title: "affinity: when the worker of a key leaves, its runs go to the other",
		Why:    "A preference, not a promise: nothing may wait for who is gone.",
		Source: ofOurs + "pool.md, affinity",
	}, affinityMoves},
}

// keyed queues a run with a key and has two workers claim until one of them has it. It returns who.
func (s *session) keyed(key string, queues ...*topic) int {
	id := s.enqueue(mockserver.Run{Key: key})
	holder := -1
	for range 3 {
		for i, q := range queues {
			if has(q.claim(1, everyQueue...), id) {
				holder = i
			}
		}
		if holder >= 0 {
			return holder
		}
	}
	s.t.Fatalf("one of the workers to get a run with a key", "none")
	return holder
}

func affinity(s *session) {
	queues := []*topic{s.connect().queue(), s.connect().queue()}
	for range 3 {
		key := uuid.NewString()
		home := s.keyed(key, queues...)
		for range 4 {
			slices.Reverse(queues) // the other one asks first
			home = 1 - home
			if got := s.keyed(key, queues...); got != home {
				s.t.Fatalf("runs with one key to go to one worker", "one that went to the other")
			}
		}
	}
}

func affinityMoves(s *session) {
	first, second := s.connect().queue(), s.connect().queue()
	queues := []*topic{first, second}
	key := uuid.NewString()
	home := s.keyed(key, queues...)
	queues[home].c.close()
	s.wait(moment)
	s.keyed(key, queues[1-home])
}
