package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

// client is one connection to the server under test. One goroutine uses it, that of the case; the heartbeat of its own
// goes beside it.
type client struct {
	s       *session
	number  int    // of the case's connections, from 1
	worker  string // the worker_id in its token
	conn    *websocket.Conn
	lastRef int
	running sync.WaitGroup
	done    chan struct{} // closed when the reader has returned
	more    chan struct{} // capacity 1: something has arrived, or the connection has ended

	writing sync.Mutex // one message at a time

	mu      sync.Mutex // guards what follows
	arrived []frame    // what nobody has asked for yet
	ended   error      // why nothing more comes
}

func newClient(s *session, conn *websocket.Conn, worker string) *client {
	s.connections++
	c := &client{s: s, number: s.connections, worker: worker, conn: conn, done: make(chan struct{}), more: make(chan struct{}, 1)}
	c.running.Go(c.read)
	c.running.Go(c.beat)
	return c
}

// beats is the ref of the heartbeats that keep a connection, while a case waits for something else.
const beats = ref(`"kit-beat"`)

// beat sends a heartbeat as often as workers do, until the connection has ended.
func (c *client) beat() {
	ticker := time.NewTicker(30 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.send(frame{ref: beats, topic: "phoenix", event: "heartbeat", payload: []byte(`{}`)})
		case <-c.done:
			return
		}
	}
}

// read keeps what arrives until the connection ends.
func (c *client) read() {
	defer close(c.done)
	for {
		kind, data, err := c.conn.ReadMessage()
		var f frame
		if err == nil {
			c.note(suite.ToClient, kind, data)
			if f, err = decode(data, kind == websocket.BinaryMessage); err != nil {
				err = fmt.Errorf("the server sent what is no frame: %w", err)
			}
		}
		c.mu.Lock()
		switch {
		case err != nil:
			c.ended = err
		case f.ref != beats:
			c.arrived = append(c.arrived, f)
		}
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// note keeps a message for the report.
func (c *client) note(direction suite.Direction, kind int, data []byte) {
	text := short(data)
	if kind == websocket.BinaryMessage {
		text = fmt.Sprintf("%q", text)
	}
	c.s.t.Note(suite.Frame{Connection: c.number, Direction: direction, Text: text})
}

// close ends the connection without a word, as a worker that dies does.
func (c *client) close() {
	_ = c.conn.Close()
	c.running.Wait()
}

// take removes the first frame that fits among those that have arrived.
func (c *client) take(fits func(*frame) bool) (f frame, found bool, ended error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.arrived {
		if fits(&c.arrived[i]) {
			f = c.arrived[i]
			c.arrived = slices.Delete(c.arrived, i, i+1)
			return f, true, nil
		}
	}
	return frame{}, false, c.ended
}

var errSilence = errors.New("nothing came")

// next returns the first frame that fits, and waits for it for so long. The error is errSilence, or why the
// connection has ended.
func (c *client) next(patience time.Duration, fits func(*frame) bool) (frame, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		f, found, ended := c.take(fits)
		switch {
		case found:
			return f, nil
		case ended != nil:
			return frame{}, ended
		}
		select {
		case <-c.more:
		case <-timer.C:
			return frame{}, errSilence
		case <-c.s.ctx.Done():
			return frame{}, context.Cause(c.s.ctx)
		}
	}
}

// awaitEnd waits until the server has closed the connection, or not for so long.
func (c *client) awaitEnd(patience time.Duration) {
	_, _ = c.next(patience, func(*frame) bool { return false })
}

// newRef makes a ref that was not there before on this connection.
func (c *client) newRef() ref {
	c.lastRef++
	return stringRef(strconv.Itoa(c.lastRef))
}

// send writes a frame.
func (c *client) send(f frame) {
	data, err := encode(&f)
	if err != nil {
		panic(fmt.Sprintf("the kit cannot encode its own frame %s: %v", f.event, err))
	}
	c.write(websocket.TextMessage, data)
}

// write writes a message, whatever is in it. That the connection has ended shows where its answer is waited for.
func (c *client) write(kind int, data []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.note(suite.ToServer, kind, data)
	_ = c.conn.SetWriteDeadline(time.Now().Add(patience))
	_ = c.conn.WriteMessage(kind, data)
}

// push sends an event and returns its ref.
func (c *client) push(joinRef ref, topic, event, payload string) ref {
	r := c.newRef()
	c.send(frame{joinRef: joinRef, ref: r, topic: topic, event: event, payload: []byte(payload)})
	return r
}

// answer is what came of a push.
type answer struct {
	frame

	err error // nothing came; the frame is empty
}

func (a answer) ok() bool      { return a.event == replyEvent && a.status == "ok" }
func (a answer) refused() bool { return a.event == replyEvent && a.status == "error" }

// over reports whether the topic has ended instead.
func (a answer) over() bool { return a.event == errorEvent || a.event == closeEvent }

const (
	joinEvent  = "phx_join"
	leaveEvent = "phx_leave"
	errorEvent = "phx_error"
	closeEvent = "phx_close"
)

// String says what came.
func (a answer) String() string {
	switch {
	case errors.Is(a.err, errSilence):
		return fmt.Sprintf("no answer for %v", patience)
	case a.err != nil:
		return "the end of the connection: " + a.err.Error()
	case a.over():
		return a.event
	case a.binary:
		return fmt.Sprintf("the reply %s with %d bytes", a.status, len(a.payload))
	}
	return fmt.Sprintf("the reply %s with %s", a.status, short(a.payload))
}

// short is the beginning of a text that may be very long.
func short(text []byte) string {
	const most = 300
	if len(text) > most {
		return fmt.Sprintf("%s… (%d bytes)", text[:most], len(text))
	}
	return string(text)
}

// await returns the reply to a push, or what ended its topic instead.
func (c *client) await(r, joinRef ref, topic string) answer {
	f, err := c.next(patience, func(f *frame) bool {
		return f.topic == topic && (f.event == replyEvent && f.ref == r ||
			(f.event == errorEvent || f.event == closeEvent) && (f.joinRef == joinRef || f.joinRef == ""))
	})
	return answer{f, err}
}

// alive asks whether the connection answers at all, and that nothing that came before is still being handled.
func (c *client) alive() error {
	r := c.push("", "phoenix", "heartbeat", `{}`)
	a := c.await(r, "", "phoenix")
	if !a.ok() {
		return fmt.Errorf("a heartbeat got %s", a)
	}
	return nil
}

// topic is one join of a topic.
type topic struct {
	c       *client
	name    string
	joinRef ref
	joined  answer
}

// join joins a topic, whatever the answer.
func (c *client) join(name, payload string) *topic {
	r := c.newRef()
	c.send(frame{joinRef: r, ref: r, topic: name, event: joinEvent, payload: []byte(payload)})
	f, err := c.next(patience, func(f *frame) bool { return f.topic == name && f.event == replyEvent && f.ref == r })
	return &topic{c: c, name: name, joinRef: r, joined: answer{f, err}}
}

// send pushes without waiting for the answer.
func (t *topic) send(event, payload string) ref { return t.c.push(t.joinRef, t.name, event, payload) }

// await waits for the answer to what was sent.
func (t *topic) await(r ref) answer { return t.c.await(r, t.joinRef, t.name) }

// ask pushes and waits for the answer.
func (t *topic) ask(event, payload string) answer { return t.await(t.send(event, payload)) }

// must pushes, wants an ok, and returns the response.
func (t *topic) must(event, payload string) []byte {
	a := t.ask(event, payload)
	if !a.ok() {
		t.c.s.t.Fatalf("the reply ok to "+event+" on "+t.name, "%s, to %s", a, short([]byte(payload)))
	}
	return a.payload
}

// refused pushes, and wants the answer to be a refusal: that is a reply, and not the end of the topic.
func (t *topic) refused(event, payload string) {
	a := t.ask(event, payload)
	if !a.refused() {
		t.c.s.t.Fatalf(event+" on "+t.name+" to be refused, by a reply with the status error", "%s, to %s", a, short([]byte(payload)))
	}
}

// pushed waits for an event of the server's own.
func (t *topic) pushed(event string, wait time.Duration) (frame, error) {
	return t.c.next(wait, func(f *frame) bool { return f.topic == t.name && f.event == event })
}

// quiet wants that nothing of the kind comes for a moment.
func (t *topic) quiet(event string) {
	if f, err := t.pushed(event, moment); err == nil {
		t.c.s.t.Fatalf("no "+event+" on "+t.name, "one with %s", short(f.payload))
	}
}
