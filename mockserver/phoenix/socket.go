package phoenix

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/channel/frame"
)

const (
	writeTimeout = 10 * time.Second
	// closeTimeout is how long a client may take to answer a close frame.
	closeTimeout = time.Second
)

// socket is one connection from its upgrade to its end. The goroutine of the
// request reads and handles; a second one writes.
type socket struct {
	id       int        // given by Endpoint.add, constant afterwards
	name     string     // who the client is
	params   url.Values // of its upgrade
	endpoint *Endpoint
	conn     *websocket.Conn
	wire     *wire
	out      *outbox
	log      *slog.Logger

	topics map[string]*Topic // reader only
	buf    bytes.Buffer      // reader only: the message being handled
	twist  twist             // reader only: what a fault makes of it

	heard   atomic.Int64 // when the client last sent anything, Unix ns
	stalled atomic.Int64 // until when nothing is handled, Unix ns
	closing atomic.Bool  // the end is on its way, messages are ignored
	stop    func()       // closes stopped
	stopped chan struct{}
}

func newSocket(e *Endpoint, conn *websocket.Conn, w *wire, name string, params url.Values) *socket {
	stopped := make(chan struct{})
	return &socket{
		endpoint: e, name: name, params: params, conn: conn, wire: w, out: newOutbox(),
		log: e.cfg.Logger, topics: make(map[string]*Topic),
		stopped: stopped, stop: sync.OnceFunc(func() { close(stopped) }),
	}
}

func (s *socket) run() {
	s.log = s.log.With("socket", s.id)
	s.log.Debug("socket opened")
	s.hear()
	s.conn.SetReadLimit(s.endpoint.cfg.MaxFrame)
	s.conn.SetPingHandler(func(payload string) error {
		s.hear()
		s.out.pong(payload)
		return nil
	})
	s.conn.SetPongHandler(func(string) error {
		s.hear()
		return nil
	})
	// The writer sends the close frame, behind the replies still to be sent.
	s.conn.SetCloseHandler(func(int, string) error { return nil })

	if err := s.flush(); err != nil { // the answer to the upgrade
		_ = s.wire.Close()
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write()
	}()
	code := s.read()
	for _, t := range s.topics {
		if s.out.retire(t) {
			t.channel.Left()
		}
	}
	s.out.close(code)
	<-written
	_ = s.wire.Close()
	s.log.Debug("socket closed")
}

func (s *socket) hear() { s.heard.Store(time.Now().UnixNano()) }

// shut sends a close frame and gives the client closeTimeout to answer it; if
// the code is noCode it ends the connection without. Any goroutine may call it.
func (s *socket) shut(code int) {
	patience := closeTimeout
	if code == noCode {
		patience = 0
	}
	s.closing.Store(true)
	s.out.close(code)
	s.stop()
	_ = s.conn.SetReadDeadline(time.Now().Add(patience))
}

// read handles messages until the connection ends, and returns the code to
// answer with.
func (s *socket) read() int {
	for {
		kind, r, err := s.conn.NextReader()
		if err == nil {
			s.buf.Reset()
			_, err = s.buf.ReadFrom(io.LimitReader(r, s.endpoint.cfg.MaxFrame+1))
		}
		if err != nil {
			return s.ended(err)
		}
		if int64(s.buf.Len()) > s.endpoint.cfg.MaxFrame {
			return s.ended(websocket.ErrReadLimit)
		}
		s.hear()
		s.awaitStall()
		if s.closing.Load() {
			continue
		}
		s.receive(kind == websocket.BinaryMessage)
		if s.buf.Cap() > keepBuffer {
			s.buf = bytes.Buffer{}
		}
	}
}

func (s *socket) receive(binary bool) {
	data := s.buf.Bytes()
	f, err := frame.DecodePush(data, binary)
	s.endpoint.cfg.Transcript.add(Exchange{Socket: s.id, Direction: FromClient, Topic: f.Topic, Event: f.Event, Binary: binary}, data)
	if err == nil && !binary && !json.Valid(f.Payload) {
		err = errors.New("the payload is not JSON")
	}
	if err == nil && !binary && !bytes.Equal(frame.Portable(f.Payload), f.Payload) {
		err = errors.New("the payload has a lone surrogate, or a number beyond float64, which Jason refuses")
	}
	if err != nil {
		s.log.Warn("socket crashed by what is not a frame", "error", err)
		s.shut(websocket.CloseInternalServerErr)
		return
	}
	s.handle(&f)
}

func (s *socket) ended(err error) int {
	var closed *websocket.CloseError
	if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
		return closed.Code
	}
	if errors.Is(err, websocket.ErrReadLimit) {
		s.log.Warn("connection dropped: a message is over the limit", "limit", s.endpoint.cfg.MaxFrame)
	}
	return noCode
}

var (
	emptyResponse   = []byte(`{}`)
	unmatchedTopic  = []byte(`{"reason":"unmatched topic"}`)
	joinCrashed     = []byte(`{"reason":"join crashed"}`)
	tooManyChannels = []byte(`{"reason":"too many channels joined"}`)
)

// handle answers one message, as the fault has it that strikes it.
func (s *socket) handle(f *frame.Frame) {
	if rule := s.fault(f); rule != nil {
		s.serveStruck(f, rule)
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
