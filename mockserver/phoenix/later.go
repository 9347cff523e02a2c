package phoenix

import (
	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// Later is the answer to a push that is still to come.
type Later struct {
	topic *Topic
	ref   frame.Ref
	// What a fault makes of it, as it would of an answer given at once.
	delivery delivery
	rule     *fault.Rule
}

// Defer lets the push be answered later: by the Later, while [Channel.Handle]
// returns the Reply. Only Handle may call it, once.
//
// A fault that strikes the push after it was applied does so when it is answered;
// only a crash ends the topic while the push still waits.
func (p Push) Defer() (*Later, Reply) {
	twist := &p.topic.socket.twist
	twist.deferred = true
	return &Later{topic: p.topic, ref: p.ref, delivery: twist.delivery, rule: twist.rule}, Reply{verdict: deferred}
}

// Answer sends the reply, which is an [OK], [Bytes] or [Refuse], and reports
// whether it could: the topic may have ended, or its connection. It is to be called
// once at most; if it never is, the client waits for ever. It never blocks and may
// be called by any goroutine.
func (l *Later) Answer(r Reply) bool {
	s := l.topic.socket
	sent := s.out.answer(l.topic, answer(l.topic.joinRef, l.ref, l.topic.name, r), l.delivery)
	if sent && l.rule != nil {
		s.end(l.rule)
	}
	return sent
}
