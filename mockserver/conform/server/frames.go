package server

import (
	"strings"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

var frameCases = []entry{
	{suite.Case{
		ID: "S2.1", Level: suite.Must, Title: "a heartbeat is answered",
		Why:    "A worker whose heartbeat has no answer by the next one takes the connection for dead, and leaves it.",
		Source: ofPhoenix + "topic phoenix, event heartbeat, every 30 s",
	}, heartbeat},
	{suite.Case{
		ID: "S2.2", Level: suite.Must, Title: "a reply carries the ref and the join_ref of its push, as they came",
		Why:    "It is all by which a worker knows which of its pushes was answered; clients choose their refs as they like.",
		Source: ofPhoenix + "[join_ref, ref, topic, event, payload]",
	}, refs},
	{suite.Case{
		ID: "S2.3", Level: suite.Must, Title: "a topic that there is not cannot be joined, and the socket stays",
		Why:    "A worker that is newer than its server must be able to find out, at the price of one refusal.",
		Source: ofPhoenix + "unmatched topic",
	}, unknownTopic},
	{suite.Case{
		ID: "S2.4", Level: suite.Must, Title: "a push to a topic that is not joined is refused, and the socket stays",
		Why:    "After a crash of a topic a worker's push may cross the news of it; silence would make it wait for nothing.",
		Source: ofPhoenix + "unmatched topic",
	}, notJoined},
	{suite.Case{
		ID: "S2.5", Level: suite.Must, Title: "an event that there is not harms its own topic at most",
		Why:    "All runs of a worker are on one socket: what is wrong with one topic must not end the others.",
		Source: ofPhoenix + "each topic is a process of its own",
	}, unknownEvent},
	{suite.Case{
		ID: "S2.6", Level: suite.Should, Title: "an event that there is not is answered: by an error, or by phx_error",
		Why:    "A worker that hears nothing waits until its own time is up.",
		Source: ofPhoenix + "the channel crashes, which is told as phx_error",
	}, unknownEventAnswered},
	{suite.Case{
		ID: "S2.7", Level: suite.Must, Title: "a topic that has crashed can be joined again",
		Why:    "That is how a worker goes on after a fault of the server, with its runs.",
		Source: ofPhoenix + "clients rejoin after phx_error",
	}, joinAfterCrash},
	{suite.Case{
		ID: "S2.8", Level: suite.Must, Title: "what is no frame harms its own connection at most",
		Why:    "One broken client must not take the workers of others with it.",
		Source: ofPhoenix + "the socket's process crashes, with code 1011",
	}, noFrame},
	{suite.Case{
		ID: "S2.9", Level: suite.Must, Title: "a frame of 10 MB is taken",
		Why:    "Outputs may have 10 MB by default; a server that drops the connection over one loses every run of the worker.",
		Source: ofLightning + "max_frame_size is 11,000,000 bytes; " + ofWorker + "WORKER_MAX_PAYLOAD_MB is 10",
	}, largeFrame},
	{suite.Case{
		ID: "S2.10", Level: suite.Must, Title: "a frame of 12 MB is answered, or ends its own connection, and no other",
		Why:    "A worker that sends too much must find out, and the others must not notice.",
		Source: ofLightning + "a frame over 11,000,000 bytes drops the connection",
	}, oversize},
	{suite.Case{
		ID: "S2.11", Level: suite.Must, Title: "a leave is answered with ok",
		Why:    "A worker that stops leaves its topics, and waits for the answers.",
		Source: ofPhoenix + "phx_leave",
	}, leave},
	{suite.Case{
		ID: "S2.12", Level: suite.Should, Title: "behind the answer to a leave comes phx_close, under the join that has ended",
		Why:    "Clients of Phoenix forget the topic over it.",
		Source: ofPhoenix + "the channel's process stops",
	}, leaveCloses},
	{suite.Case{
		ID: "S2.13", Level: suite.Must, Title: "a topic that is joined can be joined anew, and the new join counts",
		Why:    "After a lost answer a worker cannot know whether it has joined; the join that it makes again has to work.",
		Source: ofPhoenix + "the old channel is closed, the new one takes its place",
	}, rejoin},
	{suite.Case{
		ID: "S2.14", Level: suite.Should, Title: "a leave of an earlier join leaves the present one alone",
		Why:    "It may have been on its way when the topic was joined again.",
		Source: ofPhoenix + "phx_leave with a stale join_ref is ignored",
	}, staleLeave},
	{suite.Case{
		ID: "S2.15", Level: suite.Must, Title: "a worker may have several sockets under one worker_id",
		Why:    "A socket carries 100 topics by default, so a worker with more runs opens more; the second must not end the first.",
		Source: ofPhoenix + "max_channels, from 1.7.24 on; a worker keeps its worker_id",
	}, twoSockets},
}

func heartbeat(s *session) {
	c := s.connect()
	r := c.push("", "phoenix", "heartbeat", `{}`)
	a := c.await(r, "", "phoenix")
	if !a.ok() || a.joinRef != "" || string(a.payload) != `{}` {
		s.t.Fatalf("a heartbeat to be answered with ok and {}, without a join_ref", "%s with the join_ref %q", a, a.joinRef)
	}
	if a = c.await(c.push("", "phoenix", "heartbeat", `{}`), "", "phoenix"); !a.ok() {
		s.t.Fatalf("the second heartbeat to be answered as well", "%s", a)
	}
}

func refs(s *session) {
	c := s.connect()
	const joinRef = ref(`"join ü 1"`)
	c.send(frame{joinRef: joinRef, ref: joinRef, topic: "worker:queue", event: joinEvent, payload: []byte(`{"capacity":1,"queues":{}}`)})
	t := &topic{c: c, name: "worker:queue", joinRef: joinRef}
	for _, r := range []ref{joinRef, `"z9"`, `"1000000000000000000000"`} {
		if r != joinRef {
			c.send(frame{joinRef: joinRef, ref: r, topic: t.name, event: "claim", payload: []byte(claimOf(1, everyQueue).String())})
		}
		f, err := c.next(patience, func(f *frame) bool { return f.topic == t.name && f.event == replyEvent })
		if err != nil || f.ref != r || f.joinRef != joinRef {
			s.t.Fatalf("a reply with the ref "+string(r)+" and the join_ref "+string(joinRef), "%s, with the ref %s and the join_ref %s", answer{f, err}, f.ref, f.joinRef)
		}
	}
}

func unknownTopic(s *session) {
	c := s.connect()
	if t := c.join("kitchen:"+uuid.NewString(), `{}`); !t.joined.refused() {
		s.t.Fatalf("the join of a topic that there is not to be refused, by a reply with the status error", "%s", t.joined)
	}
	s.lives(c)
}

// lives wants the socket to work.
func (s *session) lives(c *client) {
	if err := c.alive(); err != nil {
		s.t.Fatalf("the socket to stay, and to work", "%v", err)
	}
}

func notJoined(s *session) {
	id := s.enqueue(mockserver.Run{})
	c := s.connect()
	never := &topic{c: c, name: "worker:queue", joinRef: `"77"`}
	never.refused("claim", claimOf(1, everyQueue).String())
	c.queue().claimRun(id) // nobody was given it
	s.lives(c)
}

func unknownEvent(s *session) {
	c, q, r := s.claimed(mockserver.Run{})
	r.send("kit:no_such_event", `{}`)
	s.lives(c)
	if runs := q.claim(1, everyQueue...); len(runs) > 0 {
		s.t.Fatalf("nothing to be in the queue", "%s", ids(runs))
	}
}

func unknownEventAnswered(s *session) {
	_, _, r := s.claimed(mockserver.Run{})
	if a := r.ask("kit:no_such_event", `{}`); !a.refused() && a.event != errorEvent {
		s.t.Fatalf("an event that there is not to be answered by the status error, or by phx_error", "%s", a)
	}
}

func joinAfterCrash(s *session) {
	c := s.connect()
	q := c.queue()
	q.ask("kit:no_such_event", `{}`) // whatever the answer
	s.lives(c)
	id := s.enqueue(mockserver.Run{})
	run := c.queue().claimRun(id)
	r := c.run(run)
	r.ask("kit:no_such_event", `{}`)
	r = c.run(run)
	r.must("run:start", payload{"timestamp": now()}.String())
	r.must("run:complete", completed)
}

func noFrame(s *session) {
	_, q, r := s.claimed(mockserver.Run{})
	for _, text := range []string{`{"no":"array"}`, `["1","1","worker:queue","phx_join"]`, `[null,"1","phoenix","heartbeat",{`, "\x00"} {
		c := s.connect()
		c.write(websocket.TextMessage, []byte(text))
		c.awaitEnd(moment)
	}
	c := s.connect()
	c.write(websocket.BinaryMessage, []byte{0, 250, 250, 250, 250, 'x'})
	c.awaitEnd(moment)
	r.must("run:start", payload{"timestamp": now()}.String())
	q.empty("no other run was queued")
	s.lives(s.connect())
}

// megabytes makes an output of a step that is about as large.
func megabytes(n int) payload {
	return payload{"output_dataclip": `{"data":"` + strings.Repeat("x", n*1_000_000) + `"}`, "output_dataclip_id": uuid.NewString()}
}

func largeFrame(s *session) {
	r, nodes := s.started(1)
	step := r.startStep(nodes[0], nil)
	r.must("step:complete", stepComplete(step, nodes[0], megabytes(10)))
}

func oversize(s *session) {
	_, _, r := s.claimed(mockserver.Run{})
	other := s.connect()
	q := other.queue()
	step := uuid.NewString()
	a := r.ask("step:complete", stepComplete(step, "a", megabytes(12)))
	if a.err == errSilence { //nolint:errorlint // it is never wrapped
		s.t.Fatalf("a frame of 12 MB to be answered, or to end its connection", "%s", a)
	}
	q.empty("no other run was queued")
	s.lives(s.connect())
}

func leave(s *session) {
	c := s.connect()
	q := c.queue()
	if a := q.await(q.send(leaveEvent, `{}`)); !a.ok() {
		s.t.Fatalf("a leave to be answered with ok", "%s", a)
	}
	s.lives(c)
}

func leaveCloses(s *session) {
	q := s.connect().queue()
	r := q.send(leaveEvent, `{}`)
	if a := q.await(r); !a.ok() {
		s.t.Fatalf("a leave to be answered with ok first", "%s", a)
	}
	f, err := q.pushed(closeEvent, patience)
	if err != nil || f.joinRef != q.joinRef {
		s.t.Fatalf("a phx_close with the join_ref "+string(q.joinRef), "%s with the join_ref %s", answer{f, err}, f.joinRef)
	}
}

func rejoin(s *session) {
	c := s.connect()
	old := c.queue()
	q := c.queue()
	id := s.enqueue(mockserver.Run{})
	run := q.claimRun(id)
	first := c.run(run)
	second := c.run(run)
	second.must("run:start", payload{"timestamp": now()}.String())
	second.must("run:complete", completed)
	s.lives(c)
	for _, t := range []*topic{q, second} {
		if f, found, _ := c.take(func(f *frame) bool { return f.topic == t.name && f.event == closeEvent && f.joinRef == t.joinRef }); found {
			s.t.Fatalf("the new join to stay", "a phx_close under its join_ref %s (the old ones are %s and %s)", f.joinRef, old.joinRef, first.joinRef)
		}
	}
}

func staleLeave(s *session) {
	c := s.connect()
	old := c.queue()
	q := c.queue()
	old.send(leaveEvent, `{}`)
	id := s.enqueue(mockserver.Run{})
	q.claimRun(id)
}

func twoSockets(s *session) {
	worker := uuid.NewString()
	first := s.connectAs(worker)
	q := first.queue()
	second := s.connectAs(worker)
	other := second.queue()
	s.wait(moment)
	s.lives(first)
	id := s.enqueue(mockserver.Run{})
	r := second.run(q.claimRun(id)) // claimed over the one, reported over the other
	r.must("run:start", payload{"timestamp": now()}.String())
	r.must("run:complete", completed)
	other.empty("no other run was queued")
}
