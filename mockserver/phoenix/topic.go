package phoenix

import "github.com/phxworker/phxworker/channel/frame"

// Topic is one join of a topic on one socket.
type Topic struct {
	name    string
	socket  *socket
	joinRef frame.Ref
	channel Channel // set by the socket's reader before the join is answered

	phase phase          // guarded by socket.out.mu
	early []*frame.Frame // likewise: what is sent behind the join's reply
}

// phase is how far a topic has come.
type phase int

const (
	joining phase = iota // the join is not answered yet
	open
	ended
)

// Name returns the topic's name, such as worker:queue.
func (t *Topic) Name() string { return t.name }

// Client says who joined: the name that [App.Connect] gave its socket.
func (t *Topic) Client() string { return t.socket.name }

// Send sends an event on the server's own account, without refs, as a
// broadcast. It never blocks and may be called by any goroutine. Before the join
// is answered it is kept, and sent behind that answer; once the topic has ended
// it does nothing. The payload is JSON text.
func (t *Topic) Send(event string, payload []byte) {
	t.socket.out.sendOn(t, &frame.Frame{Topic: t.name, Event: event, Payload: payload})
}

// Close ends the topic from the server's side, as a channel process that stops
// does: the client gets a phx_close, and no reply to what it has pushed meanwhile.
// It never blocks and may be called by any goroutine, and again.
func (t *Topic) Close() {
	if t.socket.out.retire(t) {
		t.socket.out.hasten(t.name)
		t.socket.out.end(t, frame.Close)
	}
}

// topic returns what is joined under the name, nil if nothing is. Only the
// socket's reader calls it.
func (s *socket) topic(name string) *Topic {
	t := s.topics[name]
	if t != nil && s.out.over(t) {
		delete(s.topics, name)
		return nil
	}
	return t
}

// full reports whether no more topics can be joined. What [Topic.Close] has ended
// does not count.
func (s *socket) full() bool {
	if len(s.topics) < s.endpoint.cfg.MaxTopics {
		return false
	}
	for name := range s.topics {
		s.topic(name)
	}
	return len(s.topics) >= s.endpoint.cfg.MaxTopics
}
