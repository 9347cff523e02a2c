package phxworker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/phoenix"
	"github.com/phxworker/phxworker/runner/delivery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a mock Lightning and the way to it, in memory, so that a worker and
// its server can live in a synctest bubble. What the tests assert is what this
// server saw.
type house struct {
	t        *testing.T
	server   *mockserver.Server
	listener *wstest.Listener
	gate     *gate
	away     atomic.Bool // whether nobody answers a dial

	mu    sync.Mutex
	conns []net.Conn // the workers' ends
}

// switchedOn are the extensions of the workers in all tests that do not say. With
// PHXWORKER_EXTENSIONS=all the whole suite shows that a server which knows none sees
// nothing of them but the offer.
func switchedOn() []string {
	if names := os.Getenv("PHXWORKER_EXTENSIONS"); names != "" {
		return strings.Split(names, ",")
	}
	return nil
}

// offered is how each join of the queue ends.
func offered() string {
	if switchedOn() == nil {
		return "}"
	}
	return `,"extensions":{"attempt":1,"claim_ack":1,"drain":1,"lease":1,"longpoll":1,"release":1,"status":1}}`
}

// openHouse must be called inside a bubble.
func openHouse(t *testing.T, cfg mockserver.Config) *house {
	t.Helper()
	cfg.TranscriptLimit = 100_000
	server, err := mockserver.New(mocktest.Config(cfg))
	require.NoError(t, err)
	listener := wstest.Serve(t, server)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return &house{t: t, server: server, listener: listener, gate: newGate()}
}

// dial is a Config.NetDial that remembers its connections, so that a test can
// cut them.
func (h *house) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if h.away.Load() {
		return nil, errors.New("nobody is there")
	}
	conn, err := h.listener.DialContext(ctx, network, addr)
	if err == nil {
		h.mu.Lock()
		h.conns = append(h.conns, conn)
		h.mu.Unlock()
	}
	return conn, err
}

// cut drops every connection without a word, as a network does.
func (h *house) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, conn := range h.conns {
		_ = conn.Close()
	}
	h.conns = nil
}

// hire starts a worker and returns it with the function that stops it, waits
// for its end and returns what Run did. Its engine holds each run until the test releases it, unless
// cfg names another.
func (h *house) hire(cfg phxworker.Config) (worker *phxworker.Worker, stop func() error) {
	h.t.Helper()
	return h.hireWith(cfg, func(*phxworker.Worker) {})
}

// hireWith is hire, with something to be done before the worker runs.
func (h *house) hireWith(cfg phxworker.Config, before func(*phxworker.Worker)) (worker *phxworker.Worker, stop func() error) {
	h.t.Helper()
	cfg.URL, cfg.Transport.NetDial = "ws://lightning.test/worker", h.dial
	if cfg.Secret == "" {
		cfg.Secret = h.server.Secret()
	}
	if cfg.Engine == nil {
		cfg.Engine = phxworker.Func(h.gate.hold)
	}
	if cfg.Extensions == nil {
		cfg.Extensions = switchedOn()
	}
	worker, err := phxworker.New(cfg)
	require.NoError(h.t, err)
	before(worker)
	ctx, cancel := context.WithCancel(h.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	h.t.Cleanup(func() { _ = stop() })
	return worker, stop
}

// unable returns why a worker claims nothing, empty if all is well.
func unable(w *phxworker.Worker) string {
	if broken := w.Stats().Unable; len(broken) > 0 {
		return broken[0].Error
	}
	return ""
}

// put queues a run.
func (h *house) put(run mockserver.Run) {
	h.t.Helper()
	_, err := h.server.Enqueue(run)
	require.NoError(h.t, err)
}

// enqueue makes n runs of the queue, named queue-1 and so on.
func (h *house) enqueue(queue string, ids ...string) {
	h.t.Helper()
	for _, id := range ids {
		plan := fmt.Sprintf(`{"id":%q,"jobs":[{"id":"j","body":"fn(s => s)"}]}`, id)
		h.put(mockserver.Run{Plan: json.RawMessage(plan), Queue: queue})
	}
}

// state returns how far a run has come, as the server knows it.
func (h *house) state(id string) string {
	h.t.Helper()
	record, ok := h.server.Inspect(id)
	require.True(h.t, ok, "no run %s", id)
	return string(record.State)
}

// sent returns the frames that workers sent with this event, oldest first.
func (h *house) sent(event string) []sentFrame {
	h.t.Helper()
	var out []sentFrame
	for _, exchange := range h.server.Transcript() {
		if exchange.Direction != phoenix.FromClient {
			continue
		}
		f, err := frame.DecodePush(exchange.Data, exchange.Binary)
		require.NoError(h.t, err)
		if f.Event == event {
			out = append(out, sentFrame{at: exchange.At, topic: f.Topic, payload: string(f.Payload)})
		}
	}
	return out
}

type sentFrame struct {
	at             time.Time
	topic, payload string
}

// claimsOf returns when claims with these queues came.
func (h *house) claimsOf(queues ...string) []time.Time {
	h.t.Helper()
	want, err := json.Marshal(queues)
	require.NoError(h.t, err)
	var out []time.Time
	for _, f := range h.sent("claim") {
		var body struct{ Queues json.RawMessage }
		require.NoError(h.t, json.Unmarshal([]byte(f.payload), &body))
		if string(body.Queues) == string(want) {
			out = append(out, f.at)
		}
	}
	return out
}

// gate is an engine whose runs go on when the test says so.
type gate struct {
	mu   sync.Mutex
	runs map[string]chan error
}

func newGate() *gate { return &gate{runs: make(map[string]chan error)} }

func (g *gate) of(id string) chan error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.runs[id] == nil {
		g.runs[id] = make(chan error, 1)
	}
	return g.runs[id]
}

func (g *gate) hold(ctx context.Context, run *phxworker.Run) (any, error) {
	select {
	case err := <-g.of(run.ID):
		return map[string]string{"ran": run.ID}, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// release lets a run end.
func (g *gate) release(id string) { g.of(id) <- nil }

// settle waits until nothing moves any more without time passing, then lets
// time pass.
func settle(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

// readSpool returns what lies in a spool folder, by name, and what is wrong with the rest.
func readSpool(dir string) (all []delivery.Spooled, err error) {
	for spooled, wrong := range delivery.EachSpooled(dir) {
		if err = errors.Join(err, wrong); wrong == nil {
			all = append(all, *spooled)
		}
	}
	return all, err
}
