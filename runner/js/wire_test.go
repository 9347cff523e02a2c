package js

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a mock Lightning, a socket to it in memory, and an engine; what the
// tests assert is what this server recorded.
type wire struct {
	t      testing.TB
	server *mockserver.Server
	socket *channel.Socket
	queue  *channel.Topic
	engine runner.Engine
	logger *slog.Logger // of the runner; nil for none
}

func newWire(t testing.TB) *wire {
	t.Helper()
	server, err := mockserver.New(mockserver.Config{OpaqueTokens: true, WakeDebounce: 24 * time.Hour, KeepRuns: 10, TranscriptLimit: -1})
	require.NoError(t, err)
	listener := wstest.NewListener()
	front := &http.Server{Handler: server, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = front.Serve(listener)
	}()
	w := &wire{t: t, server: server, engine: New(Config{})}
	w.socket, err = channel.Open(channel.Config{
		URL:     "ws://lightning.test/worker",
		NetDial: listener.DialContext,
		Params: func(context.Context) (url.Values, error) {
			claims := jwt.MapClaims{"iss": "urn:openfn:worker", "iat": time.Now().Unix(), "worker_id": "test"}
			token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(server.Secret()))
			return url.Values{"token": {token}}, err
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, w.socket.Close())
		require.NoError(t, server.Close())
		require.NoError(t, front.Close())
		<-served
	})
	w.queue, err = w.socket.Join(t.Context(), "worker:queue", map[string]int{"capacity": 1})
	require.NoError(t, err)
	return w
}

// run executes a plan with the real runner and returns what the server
// recorded.
func (w *wire) run(ctx context.Context, limits runner.Limits, run mockserver.Run) mockserver.RunRecord {
	w.t.Helper()
	run.Queue = "manual"
	require.NoError(w.t, w.server.Enqueue(run))
	reply, err := w.queue.Push(w.t.Context(), "claim", map[string]any{"demand": 1, "worker_name": nil})
	require.NoError(w.t, err)
	var body struct{ Runs []struct{ ID, Token string } }
	require.NoError(w.t, reply.Decode(&body))
	require.Len(w.t, body.Runs, 1)
	r := runner.New(runner.Config{Engine: w.engine, Limits: limits, Logger: w.logger})
	outcome := r.Run(ctx, w.socket, body.Runs[0].ID, body.Runs[0].Token)
	require.NoError(w.t, outcome.Err)
	record, ok := w.server.Inspect(body.Runs[0].ID)
	require.True(w.t, ok)
	return record
}

// job executes a plan of one job, and returns the run as the server recorded it.
func (w *wire) job(body string, options ...string) mockserver.RunRecord {
	w.t.Helper()
	return w.run(w.t.Context(), runner.Limits{}, oneJob(body, options...))
}

// oneJob returns a run with a plan of one job, and further members of the plan
// given as JSON.
func oneJob(body string, members ...string) mockserver.Run {
	code, _ := json.Marshal(body)
	plan := `{"id":"` + newRunID() + `","jobs":[{"id":"a","adaptor":"@openfn/language-common@3.3.4","body":` + string(code) + `}]`
	for _, member := range members {
		plan += "," + member
	}
	return mockserver.Run{Plan: json.RawMessage(plan + "}")}
}

// lines returns the log lines of the source, the values of a line as JSON and
// joined by a space.
func lines(t testing.TB, record mockserver.RunRecord, source string) []string {
	t.Helper()
	out := []string{}
	for _, e := range record.Events {
		var line struct {
			Source  string
			Message []json.RawMessage
		}
		if e.Event != "run:log" {
			continue
		}
		require.NoError(t, json.Unmarshal(e.Payload, &line))
		if line.Source != source {
			continue
		}
		var words []string
		for _, m := range line.Message {
			words = append(words, string(m))
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

func newRunID() string { return "run-" + strconv.FormatUint(runIDs.Add(1), 10) }

var runIDs atomic.Uint64
