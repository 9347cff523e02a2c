package web

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
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
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a mock Lightning, a worker and the worker's HTTP server, joined in
// memory inside a synctest bubble.
type house struct {
	t        *testing.T
	upstream *mockserver.Server
	lines    *wstest.Listener // to upstream
	worker   *phxworker.Worker
	ended    <-chan error // what Run returned
	client   *http.Client
	token    string        // of its requests; empty for none
	log      *bytes.Buffer // read it when nothing moves

	mu    sync.Mutex
	runs  map[string]chan struct{}
	conns []net.Conn
}

// build makes a house whose worker has not begun.
func build(t *testing.T, worker phxworker.Config, cfg Config) *house {
	t.Helper()
	upstream, err := mockserver.New(mocktest.Config(mockserver.Config{WakeDebounce: -1, OpaqueTokens: true, TranscriptLimit: 100_000}))
	require.NoError(t, err)
	h := &house{t: t, upstream: upstream, lines: wstest.Serve(t, upstream), runs: make(map[string]chan struct{}), log: new(bytes.Buffer)}
	t.Cleanup(func() { require.NoError(t, upstream.Close()) })
	logger := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))

	worker.URL, worker.Secret, worker.Transport.NetDial = "ws://lightning.test/worker", upstream.Secret(), h.dial
	if worker.Engine == nil {
		worker.Engine = phxworker.Func(h.hold)
	}
	worker.Logger = logger
	h.worker, err = phxworker.New(worker)
	require.NoError(t, err)

	h.token = cfg.Token
	cfg.Logger, cfg.OpenClaim = logger, worker.Claim.Manual
	h.serve(New(h.worker, cfg))
	return h
}

// start is build, and the worker has begun and settled.
func start(t *testing.T, worker phxworker.Config, cfg Config) *house {
	t.Helper()
	h := build(t, worker, cfg)
	h.begin()
	settle(time.Second)
	return h
}

// begin runs the worker until the end of the test.
func (h *house) begin() {
	ctx, cancel := context.WithCancel(h.t.Context())
	ended, over := make(chan error, 1), make(chan struct{})
	h.ended = ended
	go func() {
		defer close(over)
		ended <- h.worker.Run(ctx)
	}()
	h.t.Cleanup(func() {
		cancel()
		h.worker.Abort()
		<-over
	})
}

// serve makes the server reachable as h.client until the end of the test.
func (h *house) serve(server *Server) {
	listener := wstest.NewListener()
	ctx, stop := context.WithCancel(h.t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = server.Serve(ctx, listener)
	}()
	transport := &http.Transport{DialContext: listener.DialContext}
	h.client = &http.Client{Transport: transport}
	h.t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		<-over
	})
}

func (h *house) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := h.lines.DialContext(ctx, network, addr)
	if err == nil {
		h.mu.Lock()
		h.conns = append(h.conns, conn)
		h.mu.Unlock()
	}
	return conn, err
}

// cut takes the server off the network.
func (h *house) cut() {
	_ = h.lines.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, conn := range h.conns {
		_ = conn.Close()
	}
}

// hold is an engine whose runs go on until the test releases them.
func (h *house) hold(ctx context.Context, run *phxworker.Run) (any, error) {
	select {
	case <-h.gate(run.ID):
		return map[string]int{"answer": 42}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (h *house) gate(id string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs[id] == nil {
		h.runs[id] = make(chan struct{})
	}
	return h.runs[id]
}

func (h *house) release(id string) { close(h.gate(id)) }

func (h *house) enqueue(ids ...string) {
	h.t.Helper()
	for _, id := range ids {
		plan, err := json.Marshal(map[string]any{"id": id, "jobs": []any{map[string]string{"id": "j", "body": "fn(s => s)"}}})
		require.NoError(h.t, err)
		_, err = h.upstream.Enqueue(mockserver.Run{Plan: plan, Queue: "manual"})
		require.NoError(h.t, err)
	}
}

// claims returns how many claims the upstream server has received.
func (h *house) claims() (n int) {
	h.t.Helper()
	for _, exchange := range h.upstream.Transcript() {
		if exchange.Direction != phoenix.FromClient {
			continue
		}
		f, err := frame.DecodePush(exchange.Data, exchange.Binary)
		require.NoError(h.t, err)
		if f.Event == "claim" {
			n++
		}
	}
	return n
}

// state returns how far a run has come, as the upstream server knows it.
func (h *house) state(id string) string {
	h.t.Helper()
	record, ok := h.upstream.Inspect(id)
	require.True(h.t, ok, "no run %s", id)
	return string(record.State)
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request; a change may alter it before.
func (h *house) ask(method, target, body string, changes ...func(*http.Request)) answer {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), method, "http://127.0.0.1:2222"+target, strings.NewReader(body))
	require.NoError(h.t, err)
	if h.token != "" {
		withToken(h.token)(request)
	}
	for _, change := range changes {
		change(request)
	}
	response, err := h.client.Do(request)
	require.NoError(h.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(h.t, err)
	return answer{response.StatusCode, response.Header, string(text)}
}

// status returns GET /status.
func (h *house) status() (s Status) {
	h.t.Helper()
	a := h.ask("GET", "/status", "")
	require.Equal(h.t, http.StatusOK, a.status)
	require.NoError(h.t, json.Unmarshal([]byte(a.body), &s))
	return s
}

func withToken(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// settle waits until nothing moves any more without time passing, then lets
// time pass.
func settle(d time.Duration) {
	synctest.Wait()
	time.Sleep(d)
	synctest.Wait()
}

// withControls is a server that can be controlled by who has the token, as the
// requests of a house do.
var withControls = Config{Token: "token-of-the-test"}
