package phoenix

import (
	"github.com/phxworker/phxworker/channel/frame"
)

var (
	emptyResponse   = []byte(`{}`)
	unmatchedTopic  = []byte(`{"reason":"unmatched topic"}`)
	joinCrashed     = []byte(`{"reason":"join crashed"}`)
	tooManyChannels = []byte(`{"reason":"too many channels joined"}`)
)

// handle answers one message, unless a fault has it otherwise.
func (s *socket) handle(f *frame.Frame) {
	if rule := s.fault(f); rule != nil {
		s.suffer(f, rule)
		return
	}
	s.serve(f)
}

// serve answers one message the way Phoenix.Socket does.
func (s *socket) serve(f *frame.Frame) {
	t := s.topic(f.Topic)
	switch {
	case f.Topic == frame.Control && f.Event == frame.Heartbeat:
		s.reply("", f, OK(emptyResponse))
	case f.Topic == frame.Control:
		s.reply("", f, Unmatched())
	case f.Event == frame.Join:
		s.join(f, t)
	case t == nil && f.Event == frame.Leave:
		s.reply(f.JoinRef, f, OK(emptyResponse))
	case t == nil:
		s.reply("", f, Unmatched())
	case f.Event == frame.Leave:
		s.leave(f, t)
	default:
		s.push(f, t)
	}
}

// join joins the topic, or joins it again: then the client hears of the new
// join first and of the end of the old one afterwards, under its old join_ref.
func (s *socket) join(f *frame.Frame, old *Topic) {
	if old != nil {
		delete(s.topics, f.Topic)
		if s.out.retire(old) {
			old.channel.Left()
			defer s.out.end(old, frame.Close)
		}
	}
	if s.full() {
		s.reply(f.JoinRef, f, Refuse(tooManyChannels))
		return
	}
	t := &Topic{name: f.Topic, socket: s, joinRef: f.JoinRef}
	channel, reply := s.askJoin(t, f)
	switch {
	case channel != nil:
		t.channel = channel
		s.topics[f.Topic] = t
		s.out.begin(t, answer(f.JoinRef, f.Ref, f.Topic, reply), s.twist.delivery)
	case reply.verdict == unmatched:
		s.reply("", f, reply)
	case reply.verdict == crashed:
		s.log.Warn("join crashed", "topic", f.Topic, "reason", reply.reason)
		s.reply(f.JoinRef, f, Refuse(joinCrashed))
	default:
		s.reply(f.JoinRef, f, reply)
	}
}

// leave ends the topic. One with the join_ref of an earlier join is ignored.
func (s *socket) leave(f *frame.Frame, t *Topic) {
	if f.JoinRef != "" && f.JoinRef != t.joinRef {
		return
	}
	delete(s.topics, t.name)
	retired := s.out.retire(t)
	if retired {
		t.channel.Left()
	}
	s.reply(f.JoinRef, f, OK(emptyResponse))
	if retired {
		s.out.end(t, frame.Close)
	}
}

// push has the channel answer. The reply carries the join_ref of the present
// join, whatever the push had.
func (s *socket) push(f *frame.Frame, t *Topic) {
	reply := s.askPush(t, f)
	switch reply.verdict {
	case crashed:
		s.crash(t, f.Event, reply.reason)
	case deferred:
	default:
		s.out.answer(t, answer(t.joinRef, f.Ref, t.name, reply), s.twist.delivery)
	}
}

func (s *socket) crash(t *Topic, event, reason string) {
	s.log.Warn("channel crashed", "topic", t.name, "event", event, "reason", reason)
	delete(s.topics, t.name)
	if !s.out.retire(t) {
		return
	}
	t.channel.Left()
	s.out.hasten(t.name)
	s.out.end(t, frame.Error)
}

func (s *socket) reply(joinRef frame.Ref, to *frame.Frame, r Reply) {
	s.out.send(answer(joinRef, to.Ref, to.Topic, r), s.twist.delivery)
}

func answer(joinRef, ref frame.Ref, topic string, r Reply) *frame.Frame {
	f := &frame.Frame{
		JoinRef: joinRef, Ref: ref, Topic: topic, Event: frame.Reply, Status: frame.OK,
		Payload: r.response, Binary: r.verdict == acceptedBinary,
	}
	switch r.verdict {
	case refused:
		f.Status = frame.Failed
	case unmatched:
		f.Status, f.Payload = frame.Failed, unmatchedTopic
	}
	return f
}

// ending is the frame by which a channel ends: its join_ref stands in both
// places.
func ending(t *Topic, event string) *frame.Frame {
	return &frame.Frame{JoinRef: t.joinRef, Ref: t.joinRef, Topic: t.name, Event: event, Payload: emptyResponse}
}
