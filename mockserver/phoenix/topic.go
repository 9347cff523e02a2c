package phoenix

import "github.com/phxworker/phxworker/channel/frame"

// Topic is one join of a topic on one socket.
type Topic struct {
	name    string
	socket  *socket
	joinRef frame.Ref
	channel Channel // set by the socket's reader before the join is answered
	open    bool    // guarded by socket.out.mu: between the join's reply and the end
}

// Name returns the topic's name, such as worker:queue.
func (t *Topic) Name() string { return t.name }

// Client says who joined: the name that [App.Connect] gave its socket.
func (t *Topic) Client() string { return t.socket.name }

// Send sends an event on the server's own account, without refs, as a
// broadcast. It never blocks and may be called by any goroutine. Before the join
// is answered and once the topic is left it does nothing. The payload is JSON
// text.
func (t *Topic) Send(event string, payload []byte) {
	t.socket.out.sendOn(t, &frame.Frame{Topic: t.name, Event: event, Payload: payload})
}
