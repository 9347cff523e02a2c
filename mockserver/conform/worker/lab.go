package worker

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// setup is how the world of a case is before anything happens.
type setup struct {
	mock     mockserver.Config
	faults   []fault.Rule
	capacity int    // defaults to 1
	groups   string // instead of a capacity, such as "fast_lane:1 manual>*:1"
	// patience is the message timeout of the worker. Defaults to the worker's own.
	patience time.Duration
	// backoff is the pause in whole seconds between claims that bring nothing, at the least and at the
	// most. Defaults to 1/10, which is ws-worker's default. A case in which only a wake-up is to bring a
	// claim sets it to minutes.
	backoff [2]time.Duration
	// foreignKey gives the worker a public key that is not the server's.
	foreignKey bool
	// verify gives the worker the server's public key.
	verify bool
	// alone does not wait for the worker to join worker:queue.
	alone bool
	// refuse says with which status the n-th request for a socket is refused.
	refuse func(n int) int
}

// lab is what a case has: a mock Lightning behind a door, and the worker under test. Only the goroutine of
// the case uses it.
type lab struct {
	*suite.T

	setup  setup
	server *mockserver.Server
	door   *door
	worker *subject

	target Target
	env    Environment

	count  int    // frames so far, of all sockets
	frames []seen // all of them
}

// runKey signs the tokens of runs, in all cases alike: a key takes a while to make.
var runKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// newLab sets up the world of a case and starts the worker.
func newLab(t *suite.T, target Target, s setup) *lab {
	l := &lab{T: t, setup: s, target: target}
	l.startServer()
	env := l.environment()
	listener, dial := target.listenOn()
	if listener == nil {
		l.Skipf("no address of loopback can be listened on")
	}
	env.Dial = dial
	env.URL = "ws://" + listener.Addr().String() + "/worker"
	l.door = openDoor(listener, l.server, s.refuse)
	t.Cleanup(l.door.close)
	l.env = env
	l.worker = l.another()
	t.Cleanup(l.end)
	if !s.alone {
		l.awaitQueue()
	}
	return l
}

// another starts a worker, which is ended with the case.
func (l *lab) another() *subject {
	w, err := l.target.start(l.env)
	if err != nil {
		l.Skipf("%v", err)
	}
	l.Cleanup(func() {
		w.kill()
		<-w.done
	})
	l.Cleanup(l.onInterrupt(w.kill))
	return w
}

// onInterrupt does something as soon as somebody wants all to end, until stop is called. Who presses Ctrl+C again ends
// this process at once, and nobody would end the workers.
func (l *lab) onInterrupt(do func()) (stop func()) {
	forget := context.AfterFunc(l.Context(), func() {
		if errors.Is(context.Cause(l.Context()), suite.ErrInterrupted) {
			do()
		}
	})
	return func() { forget() }
}

func (l *lab) startServer() {
	cfg := l.setup.mock
	key, err := runKey()
	if err != nil {
		l.Skipf("no key for the tokens of runs could be made: %v", err)
	}
	cfg.Key = key
	cfg.TranscriptLimit = 20_000
	cfg.Faults = l.setup.faults
	if cfg.WakeDebounce == 0 {
		cfg.WakeDebounce = -1 // at once and for each run: a case need not wait for a back-off
	}
	if cfg.Dataclips == mockserver.EitherDataclips && l.Spec() == suite.Spec215 {
		cfg.Dataclips = mockserver.TextDataclips
	}
	l.server, err = mockserver.New(cfg)
	if err != nil {
		l.Fatalf("the kit to have a server", "a fault of the kit: %v", err)
	}
	l.Cleanup(func() { _ = l.server.Close() })
}

func (target Target) listenOn() (net.Listener, dialer) {
	if target.listen != nil {
		return target.listen()
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil
	}
	return listener, new(net.Dialer).DialContext
}

func (l *lab) environment() Environment {
	e := Environment{
		Secret: l.server.Secret(), Capacity: max(1, l.setup.capacity), Workloops: l.setup.groups,
		MessageTimeout: l.setup.patience, MinBackoff: time.Second, MaxBackoff: 10 * time.Second,
	}
	if e.Workloops != "" {
		e.Capacity = 0
	}
	if l.setup.backoff[0] > 0 {
		e.MinBackoff, e.MaxBackoff = l.setup.backoff[0], l.setup.backoff[1]
	}
	if l.setup.verify {
		e.PublicKey = l.server.PublicKey()
	}
	if l.setup.foreignKey {
		e.PublicKey = foreignKey
	}
	return e
}

// end hands the report what was seen and written.
func (l *lab) end() {
	l.worker.kill()
	<-l.worker.done
	l.read()
	for _, f := range l.frames {
		l.Note(f.frame(l.Began()))
	}
	if text := l.worker.log.String(); text != "" {
		l.Output("what the worker wrote", text)
	}
}

// read takes in the frames that have come meanwhile.
func (l *lab) read() (more <-chan struct{}) {
	news, count, more := l.server.Follow(l.count)
	l.count = count
	for _, e := range news {
		f := readFrame(e)
		f.place = len(l.frames)
		l.frames = append(l.frames, f)
	}
	return more
}

// tick is how often a condition is looked at without a frame: what a frame changes at the server comes
// shortly after it.
const tick = 50 * time.Millisecond

// errLate says that a wait was over before the condition held.
var errLate = errors.New("it took too long")

// underWay is how long what a worker has sent may take to be read here after the worker has gone.
const underWay = 250 * time.Millisecond

// until waits until the condition holds, which is looked at after each frame and each request for a socket.
// The error is errLate after the time given, how the worker has ended a moment after it has, or that of the case.
func (l *lab) until(limit time.Duration, holds func() bool) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	exited := l.worker.done
	var read <-chan time.Time // when the last frames are, once it has gone
	for {
		more := l.read()
		_, knock := l.door.requests()
		if holds() {
			return nil
		}
		select {
		case <-more:
		case <-knock:
		case <-ticker.C:
		case <-exited:
			exited, read = nil, time.After(underWay)
		case <-read:
			return errors.New(l.worker.exited())
		case <-timer.C:
			return errLate
		case <-l.Context().Done():
			return context.Cause(l.Context())
		}
	}
}

// await waits until the condition holds, or ends the case as failed. What is expected goes on from
// "expected".
func (l *lab) await(expected string, holds func() bool) {
	if err := l.until(time.Hour, holds); err != nil {
		l.Fatalf(expected, "%s; %s", l.soFar(), err)
	}
}

// awaitWithin is await with a limit of its own, for what has to come in a certain time.
func (l *lab) awaitWithin(limit time.Duration, expected string, holds func() bool) {
	if err := l.until(limit, holds); err != nil {
		l.Fatalf(expected, "not within %v: %s; %s", limit, l.soFar(), err)
	}
}

// watch goes on for a while, during which something must not happen.
func (l *lab) watch(d time.Duration) {
	_ = l.until(d, func() bool { return false })
}

// where returns the frames that match.
func (l *lab) where(match func(seen) bool) []seen {
	l.read()
	var out []seen
	for _, f := range l.frames {
		if match(f) {
			out = append(out, f)
		}
	}
	return out
}

// sent returns the frames of the worker with one of the events, on any topic.
func (l *lab) sent(events ...string) []seen {
	return l.where(func(f seen) bool { return f.sent && slices.Contains(events, f.event) })
}

// joins returns the worker's joins of a topic.
func (l *lab) joins(topic string) []seen {
	return l.where(func(f seen) bool { return f.sent && f.event == "phx_join" && f.topic == topic })
}

// answered returns the reply to a frame of the worker, and whether it has come. A worker may use a ref again, which W1.5
// is about: then the first of its pushes is answered first.
func (l *lab) answered(push seen) (seen, bool) {
	waiting := 0 // earlier pushes with the same ref
	for _, f := range l.frames {
		if f.socket != push.socket || f.topic != push.topic || f.ref != push.ref {
			continue
		}
		switch {
		case f.sent && f.place < push.place:
			waiting++
		case !f.sent && waiting > 0: // also a phx_error, whose ref is that of the join
			waiting--
		case f.event == "phx_reply" && f.place > push.place:
			return f, true
		}
	}
	return seen{}, false
}

// accepted reports whether a frame of the worker was answered with ok.
func (l *lab) accepted(push seen) bool {
	reply, ok := l.answered(push)
	return ok && reply.isOK()
}

const queueTopic = "worker:queue"

// inQueue returns the accepted joins of worker:queue so far.
func (l *lab) inQueue() int {
	n := 0
	for _, f := range l.joins(queueTopic) {
		if l.accepted(f) {
			n++
		}
	}
	return n
}

func (l *lab) awaitQueue() {
	l.await("the worker to connect and to join worker:queue", func() bool { return l.inQueue() > 0 })
}

// awaitBack waits until the worker is back in worker:queue, after n accepted joins before.
func (l *lab) awaitBack(n int) {
	l.await("the worker to come back and to join worker:queue again", func() bool { return l.inQueue() > n })
}

// signal tells the worker to stop.
func (l *lab) signal() {
	if err := l.worker.signal(); err != nil {
		l.Skipf("no SIGTERM could be sent: %v", err)
	}
}

// stopTime is how long a worker may take to end when it has nothing to do.
const stopTime = 10 * time.Second

// runTokens returns the tokens of runs that the worker was given, and their runs.
func (l *lab) runTokens() map[string]string {
	tokens := make(map[string]string)
	for _, g := range l.given() {
		tokens[g.Token] = g.ID
	}
	return tokens
}

// given is a run in the reply to a claim.
type given struct {
	ID, Token string
	Attempt   int // where the extension is agreed on
}

// given returns the runs that the worker was given, in turn.
func (l *lab) given() (runs []given) {
	for _, claim := range l.sent("claim") {
		reply, ok := l.answered(claim)
		var body struct {
			Response struct{ Runs []given }
		}
		if reply.into(&body); ok {
			runs = append(runs, body.Response.Runs...)
		}
	}
	return runs
}

// exited reports whether the worker has ended.
func (l *lab) exited() bool {
	select {
	case <-l.worker.done:
		return true
	default:
		return false
	}
}

// awaitExit waits until the worker has ended by itself, for stopTime.
func (l *lab) awaitExit(expected string) {
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-l.worker.done:
	case <-timer.C:
		l.read()
		l.Fatalf(expected, "it was still there %v later; %s", stopTime, l.soFar())
	case <-l.Context().Done():
		l.read()
		l.Fatalf(expected, "it was still there; %s; %v", l.soFar(), context.Cause(l.Context()))
	}
	l.read()
}

// enqueue makes a run available, and returns its id.
func (l *lab) enqueue(r mockserver.Run) string {
	if l.target.Adaptor != "" {
		r.Plan = bytes.ReplaceAll(r.Plan, []byte(adaptor), []byte(l.target.Adaptor))
	}
	id, err := l.server.Enqueue(r)
	if err != nil {
		l.Fatalf("the kit to make good plans", "a fault of the kit: %v", err)
	}
	return id
}

// addFault has the server be wrong from now on.
func (l *lab) addFault(r fault.Rule) {
	if _, err := l.server.AddFault(r); err != nil {
		l.Fatalf("the kit to make good faults", "a fault of the kit: %v", err)
	}
}

// record returns what the server knows of a run.
func (l *lab) record(id string) mockserver.RunRecord {
	record, _ := l.server.Inspect(id)
	return record
}

// awaitEnd waits until the server has the end of the run.
func (l *lab) awaitEnd(id string) mockserver.RunRecord {
	l.await("the run to be reported with run:complete", func() bool { return l.record(id).State.Final() })
	return l.record(id)
}

// execute queues a run and waits for its end.
func (l *lab) execute(r mockserver.Run) mockserver.RunRecord { return l.awaitEnd(l.enqueue(r)) }

// reason fails unless the run has ended so.
func (l *lab) reason(record mockserver.RunRecord, want string) {
	if record.Reason != want {
		l.Failf("the run to end with the reason "+want, "%s (%s: %s)", record.Reason, record.ErrorType, record.ErrorMessage)
	}
}

// applied returns the payloads of the events that the server took, of one name.
func applied(record mockserver.RunRecord, event string) []map[string]any {
	var out []map[string]any
	for _, e := range record.Events {
		if e.Event == event && e.Status == "ok" {
			out = append(out, decoded(e.Payload))
		}
	}
	return out
}

func decoded(raw json.RawMessage) map[string]any {
	var fields map[string]any
	_ = json.Unmarshal(raw, &fields) // what is no object has no fields
	return fields
}

func keys[V any, M ~map[string]V](m M) iter.Seq[string] { return maps.Keys(m) }
