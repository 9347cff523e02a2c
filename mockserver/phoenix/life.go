package phoenix

import "github.com/phxworker/phxworker/channel/frame"

// What is sent on a topic from its join to its end. The outbox decides what comes
// when, since it is the one place that all who send meet.

// begin opens t with its first frame, the reply to the join: in one breath, so
// that no broadcast can come before it. If t was closed meanwhile, that follows.
func (o *outbox) begin(t *Topic, f *frame.Frame, d delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deliverLocked(f, d)
	for _, early := range t.early {
		o.appendLocked(early)
	}
	t.early = nil
	if t.phase == joining {
		t.phase = open
		return
	}
	o.appendLocked(ending(t, frame.Close))
}

// sendOn sends a frame if t is open, or once it is.
func (o *outbox) sendOn(t *Topic, f *frame.Frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch t.phase {
	case joining:
		t.early = append(t.early, f)
	case open:
		o.appendLocked(f)
	case ended:
	}
}

// answer sends the reply to a push if t is open, and reports whether it was.
func (o *outbox) answer(t *Topic, f *frame.Frame, d delivery) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t.phase != open {
		return false
	}
	o.deliverLocked(f, d)
	return !o.closed
}

// retire ends t, so that nothing is sent on it any more but what end sends. It
// reports whether that is for the caller to do: of two who end a topic, only one
// is to tell the client, or the channel. A topic whose join has yet to be answered is
// told its end behind that answer.
func (o *outbox) retire(t *Topic) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := t.phase
	t.phase = ended
	return before == open
}

// end sends t's last frame.
func (o *outbox) end(t *Topic, event string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.appendLocked(ending(t, event))
}

// over reports whether t has ended.
func (o *outbox) over(t *Topic) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return t.phase == ended
}
