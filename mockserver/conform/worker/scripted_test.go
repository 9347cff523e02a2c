package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/gorilla/websocket"
)

// scripted is a small worker of the tests. It speaks frames by itself, and does what the jobs of the kit do
// by their texts. Without a flaw it is a good one.
type scripted struct {
	Environment

	flaw    string
	offers  []string        // extensions
	id      string          // worker_id
	started string          // the token of its start
	ctx     context.Context // the first signal
	gone    context.Context // the end of all
	end     context.CancelFunc
	links   []*link
	groups  []*loop
	one     chan struct{} // for the flaw of a worker with one slot for all

	mu    sync.Mutex // guards what follows
	runs  map[string]*execution
	off   map[string]bool // extensions that crashed
	drain context.CancelFunc
}

// broken returns a worker with a flaw as a target's function.
func broken(flaw string, offers ...string) func(context.Context, Environment) error {
	return func(ctx context.Context, e Environment) error {
		w := &scripted{
			Environment: e, flaw: flaw, offers: offers, id: uuid.NewString(),
			runs: make(map[string]*execution), off: make(map[string]bool), one: make(chan struct{}, 1),
		}
		return w.run(ctx)
	}
}

func (w *scripted) is(flaw string) bool { return w.flaw == flaw }

func (w *scripted) isDeaf() bool { return w.is("deaf") || w.is("logs its secret, and is deaf") }

var errOfScript = errors.New("the script ends with an error")

func (w *scripted) run(signal context.Context) error {
	if w.isDeaf() {
		signal = context.Background()
	}
	w.ctx, w.drain = context.WithCancel(signal)
	w.gone, w.end = context.WithCancel(context.Background())
	defer w.end()
	w.started = w.token()
	w.open()
	if strings.HasPrefix(w.flaw, "logs its secret") {
		_, _ = io.WriteString(w.Log, "secret: "+w.Secret)
	}
	second := make(chan struct{})
	go func() {
		defer close(second)
		select {
		case <-w.Abort:
			if w.is("deaf to the second") {
				<-w.gone.Done()
			}
			w.abort()
		case <-w.gone.Done():
		}
	}()
	var all sync.WaitGroup
	const topics = 90 // on a socket
	for i := range 1 + w.Capacity/topics {
		if i > 0 && w.is("one socket") {
			break
		}
		l := &link{worker: w, queue: i == 0, changed: make(chan struct{})}
		w.links = append(w.links, l)
		all.Go(l.keep)
	}
	w.work()
	if !w.is("no goodbye") {
		w.leave()
	}
	w.end()
	all.Wait()
	<-second
	if w.is("exit code 1") || w.failed() {
		return errOfScript
	}
	return nil
}

func (w *scripted) failed() bool {
	for _, l := range w.links {
		if l.refused != 0 && !w.is("exit code 0 when refused") {
			return true
		}
	}
	return false
}

// abort cancels the runs; a little later, the worker goes.
func (w *scripted) abort() {
	if w.isDeaf() { // but the end of its case it obeys
		w.drain()
		w.end()
		return
	}
	w.mu.Lock()
	for _, r := range w.runs {
		r.cancel(errAborted)
	}
	w.mu.Unlock()
	select {
	case <-time.After(3 * time.Second):
		w.end()
	case <-w.gone.Done():
	}
}

func (w *scripted) leave() {
	patience, cancel := context.WithTimeout(w.gone, time.Second)
	defer cancel()
	if w.is("waits for the server") {
		patience = w.gone
	}
	s := w.links[0].session(patience)
	if s == nil {
		return
	}
	_, _ = s.push(queueTopic, s.joinRef(queueTopic), "phx_leave", fields{}, time.Second)
	_ = s.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""), time.Now().Add(time.Second))
}

func (w *scripted) token() string {
	claims := jwt.MapClaims{"iss": "urn:openfn:worker", "iat": time.Now().Unix(), "worker_id": w.id}
	if w.is("a token without worker_id") {
		delete(claims, "worker_id")
	}
	if w.is("a token for a minute") || w.is("a token for a minute, and another for each connection") {
		claims["exp"] = time.Now().Add(time.Minute).Unix()
	}
	token, _ := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(w.Secret))
	return token
}

// link is a connection that is made again and again.
type link struct {
	worker *scripted
	queue  bool // it joins worker:queue

	refused int // the status that it ended over; read when all is over

	mu      sync.Mutex // guards what follows
	current *session   // joined to worker:queue if it is to; nil while there is none
	changed chan struct{}
}

func (l *link) keep() {
	w := l.worker
	var tries int
	for w.gone.Err() == nil {
		s, status := w.dial()
		if strings.HasSuffix(w.flaw, "when refused") && strings.HasPrefix(w.flaw, "exit") && status == 401 {
			l.refused = status
			w.drain()
			return
		}
		if w.is(fmt.Sprint("gives up at ", status)) {
			<-w.gone.Done()
			return
		}
		if s != nil {
			if code := l.serve(s); w.is(fmt.Sprint(code, " is final")) {
				<-w.gone.Done()
				return
			}
			tries = 0
		}
		pause(w.gone, w.backoff(tries))
		tries++
	}
}

func (w *scripted) backoff(tries int) time.Duration {
	d := time.Second << min(tries, 4)
	switch {
	case w.is("hammers"):
		return time.Second
	case w.is("no jitter"):
		return d
	}
	return d/2 + rand.N(d/2)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (w *scripted) dial() (*session, int) {
	query := url.Values{"vsn": {"2.0.0"}, "token": {w.started}, "api_version": {"1.2"}, "worker_version": {"1.0.0"}}
	path := "/websocket"
	switch w.flaw {
	case "a token for a minute, and another for each connection":
		query.Set("token", w.token())
	case "another vsn":
		query.Set("vsn", "1.0.0")
	case "another path":
		path = ""
	case "no versions":
		query.Del("api_version")
	}
	dialer := websocket.Dialer{NetDialContext: w.Dial, EnableCompression: true}
	conn, res, err := dialer.DialContext(w.gone, w.URL+path+"?"+query.Encode(), http.Header{})
	if res != nil && res.Body != nil {
		_ = res.Body.Close()
	}
	if err != nil {
		if res != nil {
			return nil, res.StatusCode
		}
		return nil, 0
	}
	if w.is("answers no ping") {
		conn.SetPingHandler(func(string) error { return nil })
	}
	return &session{worker: w, conn: conn, waiting: make(map[string]chan answer), topics: make(map[string]*joined), done: make(chan struct{}), writing: make(chan struct{}, 1)}, 0
}

// serve keeps the session until it ends, and returns the close code.
func (l *link) serve(s *session) (code int) {
	var side sync.WaitGroup
	side.Go(s.beat)
	stop := context.AfterFunc(l.worker.gone, func() { _ = s.conn.Close() })
	defer stop()
	joining := make(chan struct{})
	go func() {
		defer close(joining)
		l.joinQueue(s)
	}()
	code = s.read()
	_ = s.conn.Close()
	l.set(nil)
	<-joining
	side.Wait()
	l.set(nil)
	return code
}

// joinQueue joins worker:queue, and again when it crashes.
func (l *link) joinQueue(s *session) {
	w := l.worker
	if !l.queue {
		l.set(s)
		<-s.done
		return
	}
	for s.alive() {
		payload := fields{"capacity": w.slots(), "queues": w.queues()}
		if w.is("no capacity") {
			delete(payload, "capacity")
		}
		offers := fields{}
		for _, name := range w.offers {
			if !w.isOff(name) {
				offers[name] = 1
			}
		}
		if len(offers) > 0 {
			payload["extensions"] = offers
		}
		if err := s.join(queueTopic, payload, w.fromQueue); err != nil {
			if w.is("joins once") {
				return
			}
			pause(w.gone, 200*time.Millisecond)
			continue
		}
		l.set(s)
		quit := make(chan struct{})
		telling := make(chan struct{})
		go func() {
			defer close(telling)
			w.tell(s, quit)
		}()
		select {
		case <-s.end(queueTopic):
		case <-s.done:
		}
		close(quit)
		<-telling
		if !w.is("claims under the old join") {
			l.set(nil)
		}
		if w.is("stays away after a crash") || !s.alive() {
			return
		}
		pause(w.gone, 100*time.Millisecond)
	}
}

func (l *link) set(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = s
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *link) live() *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// session waits for the link to be there; nil if ctx ends first.
func (l *link) session(ctx context.Context) *session {
	for {
		l.mu.Lock()
		s, changed := l.current, l.changed
		l.mu.Unlock()
		if s != nil && s.alive() {
			return s
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// session is one connection.
type session struct {
	worker *scripted
	conn   *websocket.Conn
	done   chan struct{}
	// writing has a token while something is written.
	writing chan struct{}

	mu      sync.Mutex // guards what follows
	ref     int
	waiting map[string]chan answer // by topic and ref
	topics  map[string]*joined
}

type joined struct {
	ref   string
	ended chan struct{}
	heard func(event string, payload json.RawMessage)
	terms map[string]json.RawMessage
}

type answer struct {
	status   string
	response json.RawMessage
}

var (
	errGone    = errors.New("the connection is gone")
	errCrashed = errors.New("the topic has ended")
	errTimeout = errors.New("no answer")
	errAborted = errors.New("aborted")
	errLostRun = errors.New("the run is lost")
)

func (s *session) alive() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

func (s *session) beat() {
	ticker := time.NewTicker(30 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.done:
			return
		}
		if s.worker.is("no heartbeat") {
			continue
		}
		if _, err := s.push("phoenix", "", "heartbeat", fields{}, 25*time.Second); err != nil && !s.worker.is("heartbeats go unheeded") {
			_ = s.conn.Close()
		}
	}
}

// send writes a push, and returns where its answer comes.
func (s *session) send(topic, joinRef, event string, payload any) (ref string, reply chan answer, err error) {
	// No mutex is held while something is written: in a bubble, who waits for one stops the clock.
	s.writing <- struct{}{}
	defer func() { <-s.writing }()
	s.mu.Lock()
	s.ref++
	n := s.ref
	switch {
	case s.worker.is("refs repeat"):
		n = n%40 + 1
	case s.worker.is("one ref for all"):
		n = 1
	}
	ref = strconv.Itoa(n)
	reply = make(chan answer, 1)
	s.waiting[topic+" "+ref] = reply
	s.mu.Unlock()
	if event == "phx_join" {
		joinRef = ref
	}
	var joinRefValue any
	if joinRef != "" {
		joinRefValue = joinRef
	}
	text, err := json.Marshal([]any{joinRefValue, ref, topic, event, payload})
	if err != nil {
		return "", nil, err
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	if err := s.conn.WriteMessage(websocket.TextMessage, s.worker.spoil(text)); err != nil {
		return "", nil, errGone
	}
	return ref, reply, nil
}

// spoil makes of a good frame what a careless worker sends.
func (w *scripted) spoil(text []byte) []byte {
	switch w.flaw {
	case "sends U+0000":
		return []byte(strings.ReplaceAll(string(text), "\ufffd", `\u0000`))
	case "sends half surrogates":
		return []byte(strings.ReplaceAll(string(text), "\ufffe", `\ud800`))
	}
	return text
}

// push sends and waits for the answer.
func (s *session) push(topic, joinRef, event string, payload any, limit time.Duration) (answer, error) {
	ended := s.end(topic)
	_, reply, err := s.send(topic, joinRef, event, payload)
	if err != nil {
		return answer{}, err
	}
	return s.await(reply, ended, limit)
}

func (s *session) await(reply chan answer, ended <-chan struct{}, limit time.Duration) (answer, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a := <-reply:
		return a, nil
	case <-s.done:
		return answer{}, errGone
	case <-ended:
		select {
		case a := <-reply: // it came first
			return a, nil
		default:
			return answer{}, errCrashed
		}
	case <-timer.C:
		return answer{}, errTimeout
	case <-s.worker.gone.Done():
		return answer{}, errGone
	}
}

// end is closed when the topic ends; nil if it is not joined.
func (s *session) end(topic string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.topics[topic]; j != nil {
		return j.ended
	}
	return nil
}

func (s *session) joinRef(topic string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.topics[topic]; j != nil {
		return j.ref
	}
	return ""
}

// terms are what the server has announced for a topic.
func (s *session) terms(topic, name string) (json.RawMessage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.topics[topic]; j != nil {
		terms, ok := j.terms[name]
		return terms, ok
	}
	return nil, false
}

type refusedError struct{ response string }

func (e *refusedError) Error() string { return "refused: " + e.response }

func (s *session) join(topic string, payload any, heard func(string, json.RawMessage)) error {
	ref, reply, err := s.send(topic, "", "phx_join", payload)
	if err != nil {
		return err
	}
	a, err := s.await(reply, nil, 10*time.Second)
	if err != nil {
		return err
	}
	if a.status != "ok" {
		return &refusedError{string(a.response)}
	}
	var told struct{ Extensions map[string]json.RawMessage }
	_ = json.Unmarshal(a.response, &told)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.topics[topic] = &joined{ref: ref, ended: make(chan struct{}), heard: heard, terms: told.Extensions}
	return nil
}

// read takes in frames until the connection ends, and returns the close code.
func (s *session) read() int {
	defer close(s.done)
	for {
		kind, data, err := s.conn.ReadMessage()
		var closed *websocket.CloseError
		switch {
		case errors.As(err, &closed):
			return closed.Code
		case err != nil, s.worker.is("cannot read what is compressed") && len(data) > 1024:
			return websocket.CloseAbnormalClosure
		}
		s.take(data, kind == websocket.BinaryMessage)
	}
}

func (s *session) take(data []byte, binary bool) {
	var f seen
	var a answer
	if binary {
		f.readBinary(data)
		head := 5 + int(data[1]) + int(data[2]) + int(data[3]) + int(data[4])
		a = answer{status: "ok", response: data[head:]}
	} else {
		f.readText(data)
		var body struct {
			Status   string
			Response json.RawMessage
		}
		f.into(&body)
		a = answer{status: body.Status, response: body.Response}
	}
	s.mu.Lock()
	waiting, j := s.waiting[f.topic+" "+f.ref], s.topics[f.topic]
	switch {
	case f.event == "phx_reply":
		delete(s.waiting, f.topic+" "+f.ref)
	case (f.event == "phx_error" || f.event == "phx_close") && j != nil && j.ref == f.joinRef:
		close(j.ended)
		delete(s.topics, f.topic)
		j = nil
	}
	s.mu.Unlock()
	switch {
	case waiting != nil && f.event == "phx_reply":
		waiting <- a
	case f.event == "phx_reply" && s.worker.is("heeds what comes twice"):
		s.worker.receive(s.worker.groups[0], a)
	case j != nil && f.event != "phx_reply":
		j.heard(f.event, f.payload)
	}
}
