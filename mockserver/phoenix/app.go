package phoenix

import (
	"net/http"
	"net/url"

	"github.com/phxworker/phxworker/channel/frame"
)

// App is what an [Endpoint] serves. Its methods are called from many goroutines.
type App interface {
	// Connect decides on an upgrade by its query parameters, and says who the
	// client is, for [Faults] and [Topic.Client]. On an error the client is told
	// 401 Unauthorized and nothing else, as Lightning does; the error goes to
	// the log.
	Connect(params url.Values) (name string, err error)
	// Join answers a phx_join. The topic is joined exactly if the channel is
	// not nil, and then the reply must be an [OK]. The payload is only lent.
	Join(t *Topic, payload []byte) (Channel, Reply)
}

// Channel is one joined topic of one socket. Its methods are called one at a
// time.
type Channel interface {
	// Handle answers a push, and must not block. What takes longer is answered
	// by [Push.Defer].
	Handle(p Push) Reply
	// Left is called once, when the topic is left, has crashed, was joined
	// again, or lost its connection, but not when [Topic.Close] ended it.
	// Nothing else is called afterwards.
	Left()
}

// Push is a message from the client on a joined topic.
type Push struct {
	Event string
	// Payload is JSON text, or opaque bytes when Binary is set. It is lent
	// until Handle returns.
	Payload []byte
	Binary  bool

	topic *Topic
	ref   frame.Ref
}

// Reply is the answer to a push or a join.
type Reply struct {
	verdict  verdict
	response []byte
	reason   string
}

// OK accepts. The response is JSON text; nil stands for null.
func OK(response []byte) Reply { return Reply{verdict: accepted, response: response} }

// Bytes accepts with a binary response.
func Bytes(response []byte) Reply { return Reply{verdict: acceptedBinary, response: response} }

// Refuse answers with an error. The response is JSON text; nil stands for null.
func Refuse(response []byte) Reply { return Reply{verdict: refused, response: response} }

// Unmatched answers a join of a topic that the app does not have.
func Unmatched() Reply { return Reply{verdict: unmatched} }

// Crash ends the channel the way an exception in its process does: the client
// gets a phx_error and no reply. A join that crashes is refused with
// "join crashed". The reason is for the log.
func Crash(reason string) Reply { return Reply{verdict: crashed, reason: reason} }

// Status is how the reply reads in a record: "ok", "error" or "crash".
func (r Reply) Status() string { return r.verdict.String() }

// Response is the JSON text or the bytes of an [OK], [Bytes] or [Refuse].
func (r Reply) Response() []byte { return r.response }

// Reason is why a [Crash] happened.
func (r Reply) Reason() string { return r.reason }

type verdict int

const (
	accepted verdict = iota
	acceptedBinary
	refused
	unmatched
	crashed
	deferred
)

func (v verdict) String() string {
	switch v {
	case accepted, acceptedBinary:
		return "ok"
	case crashed:
		return "crash"
	case deferred:
		return "deferred"
	default:
		return "error"
	}
}

var _ http.Handler = (*Endpoint)(nil)

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

// Param returns a parameter of the upgrade of its socket, such as worker_version.
func (t *Topic) Param(name string) string { return t.socket.params.Get(name) }

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
