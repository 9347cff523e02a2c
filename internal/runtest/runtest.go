// Package runtest executes plans with an engine, for tests of engines: the real
// runner takes them from a mock server, in memory. What a test asserts is what
// this server recorded.
package runtest

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// Bench is a mock Lightning, a socket to it, and an engine. Run may be called
// concurrently.
type Bench struct {
	Server *mockserver.Server
	// Engine may be changed between runs.
	Engine runner.Engine
	// Logger is the runner's; nil for none.
	Logger *slog.Logger
	// EngineGrace is the runner's; zero for its default.
	EngineGrace time.Duration

	// T is who fails. It may be changed between runs.
	T testing.TB

	socket *channel.Socket
	queue  *channel.Topic
}

// New returns a Bench, which ends with the test.
func New(t testing.TB, engine runner.Engine) *Bench {
	t.Helper()
	server, err := mockserver.New(mocktest.Config(mockserver.Config{OpaqueTokens: true, WakeDebounce: 24 * time.Hour, KeepRuns: 10, TranscriptLimit: -1}))
	require.NoError(t, err)
	listener := wstest.Serve(t, server)
	b := &Bench{T: t, Server: server, Engine: engine}
	b.socket, err = channel.Open(channel.Config{
		URL:     "ws://lightning.test/worker",
		NetDial: listener.DialContext,
		Params: func(context.Context) (url.Values, error) {
			return url.Values{"token": {server.WorkerToken("test")}}, nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, b.socket.Close())
		require.NoError(t, server.Close())
	})
	b.queue, err = b.socket.Join(t.Context(), "worker:queue", map[string]int{"capacity": 1})
	require.NoError(t, err)
	return b
}

// Run executes a plan, and returns what the server recorded. The end of ctx stops
// the run, which is reported all the same.
func (b *Bench) Run(ctx context.Context, limits runner.Limits, run mockserver.Run) mockserver.RunRecord {
	b.T.Helper()
	record, _ := b.Outcome(ctx, limits, run)
	return record
}

// Outcome is Run, and returns what the worker is told as well.
func (b *Bench) Outcome(ctx context.Context, limits runner.Limits, run mockserver.Run) (mockserver.RunRecord, runner.Outcome) {
	b.T.Helper()
	require.NoError(b.T, b.Enqueue(run))
	return b.Next(ctx, limits)
}

// Enqueue queues a run for Next. The error is that the server does not take it.
func (b *Bench) Enqueue(run mockserver.Run) error {
	run.Queue = "manual"
	_, err := b.Server.Enqueue(run)
	return err
}

// Next executes the run that is next in the queue; see Outcome.
func (b *Bench) Next(ctx context.Context, limits runner.Limits) (mockserver.RunRecord, runner.Outcome) {
	b.T.Helper()
	reply, err := b.queue.Push(b.T.Context(), "claim", map[string]any{"demand": 1, "worker_name": nil})
	require.NoError(b.T, err)
	var body struct{ Runs []struct{ ID, Token string } }
	require.NoError(b.T, reply.Decode(&body))
	require.Len(b.T, body.Runs, 1)
	r := runner.New(runner.Config{Engine: b.Engine, Limits: limits, Logger: b.Logger, EngineGrace: b.EngineGrace})
	outcome := r.Run(ctx, b.T.Context(), b.socket, claim.Run{ID: body.Runs[0].ID, Token: body.Runs[0].Token}, nil)
	require.NoError(b.T, outcome.Err)
	record, ok := b.Server.Inspect(body.Runs[0].ID)
	require.True(b.T, ok)
	return record, outcome
}

// AdaptorsVariable is the environment variable with the folder in which tests
// install what they need from npm. CI sets it, so that this is installed once and not by
// each package; without it, each has a folder of its own.
const AdaptorsVariable = "PHXWORKER_TEST_ADAPTORS"

// Adaptors returns that folder.
func Adaptors(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv(AdaptorsVariable); dir != "" {
		return dir
	}
	return t.TempDir()
}

// Need skips the test where one of the programs is not installed, except in CI.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is missing, and CI must have it", program)
			}
			t.Skipf("%s is not installed, and this test needs it", program)
		}
	}
}

// Job executes a plan of one job; see [OneJob].
func (b *Bench) Job(body string, members ...string) mockserver.RunRecord {
	b.T.Helper()
	return b.Run(b.T.Context(), runner.Limits{}, OneJob(body, members...))
}

// OneJob returns a run with a plan of one job, which is a, of language-common, and
// further members of the plan given as JSON.
func OneJob(body string, members ...string) mockserver.Run {
	code, _ := json.Marshal(body)
	job := `"jobs":[{"id":"a","adaptor":"@openfn/language-common@3.3.4","body":` + string(code) + `}]`
	all := append([]string{`"id":"` + NewID() + `"`, job}, members...)
	return mockserver.Run{Plan: json.RawMessage("{" + strings.Join(all, ",") + "}")}
}

// Lines returns the log lines of the source, the values of a line as JSON and
// joined by a space.
func Lines(t testing.TB, record mockserver.RunRecord, source string) []string {
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

// NewID returns the id of a run that no other has.
func NewID() string { return "run-" + strconv.FormatUint(ids.Add(1), 10) }

var ids atomic.Uint64
