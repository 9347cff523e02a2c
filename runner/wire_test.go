package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a mock Lightning and a socket to it, in memory; what the tests assert
// is what this server recorded.
type wire struct {
	t      *testing.T
	server *mockserver.Server
	socket *channel.Socket
	queue  *channel.Topic

	mu    sync.Mutex
	conns []net.Conn
}

// newWire must be called inside a synctest bubble.
func newWire(t *testing.T, cfg mockserver.Config) *wire {
	t.Helper()
	cfg.OpaqueTokens = true
	return newSigningWire(t, cfg)
}

// newSigningWire has a server whose tokens tell when they are over, as Lightning's do.
func newSigningWire(t *testing.T, cfg mockserver.Config) *wire {
	t.Helper()
	cfg.WakeDebounce = 24 * time.Hour
	server, err := mockserver.New(mocktest.Config(cfg))
	require.NoError(t, err)
	listener := wstest.Serve(t, server)
	w := &wire{t: t, server: server}
	w.socket, err = channel.Open(channel.Config{
		URL: "ws://lightning.test/worker",
		Params: func(context.Context) (url.Values, error) {
			claims := jwt.MapClaims{"iss": "urn:openfn:worker", "iat": time.Now().Unix(), "worker_id": "test"}
			token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(server.Secret()))
			return url.Values{"token": {token}}, err
		},
		NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := listener.DialContext(ctx, network, addr)
			if err == nil {
				w.mu.Lock()
				w.conns = append(w.conns, conn)
				w.mu.Unlock()
			}
			return conn, err
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.socket.Close())
		require.NoError(t, server.Close())
	})
	w.queue, err = w.socket.Join(t.Context(), "worker:queue", map[string]int{"capacity": 1})
	require.NoError(t, err)
	return w
}

// cut drops the connection without a word.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		_ = conn.Close()
	}
	w.conns = nil
}

// claim queues the run and claims it.
func (w *wire) claim(run mockserver.Run) (id, token string) {
	w.t.Helper()
	_, err := w.server.Enqueue(run)
	require.NoError(w.t, err)
	reply, err := w.queue.Push(w.t.Context(), "claim", map[string]any{"demand": 1, "worker_name": nil})
	require.NoError(w.t, err)
	var body struct{ Runs []struct{ ID, Token string } }
	require.NoError(w.t, reply.Decode(&body))
	require.Len(w.t, body.Runs, 1)
	return body.Runs[0].ID, body.Runs[0].Token
}

// run takes a run with this plan through a Runner and returns its outcome.
func (w *wire) run(cfg Config, run mockserver.Run) Outcome {
	w.t.Helper()
	id, token := w.claim(run)
	return New(cfg).Run(w.t.Context(), w.t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
}

// events returns the events of the run with this name that the server took.
func (w *wire) events(id, name string) []map[string]any {
	w.t.Helper()
	record, ok := w.server.Inspect(id)
	require.True(w.t, ok)
	var out []map[string]any
	for _, e := range record.Events {
		if e.Event == name && e.Status == "ok" {
			var payload map[string]any
			require.NoError(w.t, json.Unmarshal(e.Payload, &payload))
			out = append(out, payload)
		}
	}
	return out
}

// names returns the events of the run in order, the logs left out.
func (w *wire) names(id string) []string {
	w.t.Helper()
	record, _ := w.server.Inspect(id)
	var out []string
	for _, e := range record.Events {
		if e.Event != "run:log" {
			out = append(out, e.Event)
		}
	}
	return out
}

// logged returns the messages of the run's log.
func (w *wire) logged(id string) []string {
	w.t.Helper()
	var out []string
	for _, line := range w.events(id, "run:log") {
		for _, m := range line["message"].([]any) {
			out = append(out, fmt.Sprint(m))
		}
	}
	return out
}

func (w *wire) result(id string) mockserver.Result {
	w.t.Helper()
	result, err := w.server.Wait(w.t.Context(), id)
	require.NoError(w.t, err)
	return result
}

func planOf(rest string) mockserver.Run {
	return mockserver.Run{Plan: json.RawMessage(`{"id":"r1","jobs":[{"id":"a","body":"x"},{"id":"b","body":"y"}]` + rest + `}`), Queue: "manual"}
}

// onWire runs the test in a bubble with a wire.
func onWire(t *testing.T, test func(t *testing.T, w *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newWire(t, mockserver.Config{})) })
}

func success(context.Context, *Run) (any, error) { return map[string]int{"n": 1}, nil }
