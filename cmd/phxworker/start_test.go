package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/lightning"
)

const (
	secret  = "start-test-secret"
	patient = 2 * time.Minute // for what should take milliseconds, on a machine that has other things to do
)

func startServer(t testing.TB, addr string) *mockserver.Server {
	t.Helper()
	return mockserver.NewTest(t, mocktest.Config(mockserver.Config{Addr: addr, Secret: secret, WakeDebounce: -1}))
}

// log is a writer whose lines a test can wait for.
type log struct {
	lines chan string
	rest  []byte
}

func newLog() *log { return &log{lines: make(chan string, 10_000)} }

func (l *log) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.lines <- string(line)
		l.rest = rest
	}
}

// await returns the first line from now on that has the text in it.
func (l *log) await(t testing.TB, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for {
		select {
		case line := <-l.lines:
			if strings.Contains(line, text) {
				return line
			}
		case <-ctx.Done():
			require.FailNow(t, "no line of the log has "+text)
		}
	}
}

// start runs the worker in the background, with HTTP on a free port unless env
// says otherwise. Its stop returns the exit code.
func start(t *testing.T, env map[string]string, args ...string) (stderr *log, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	stderr = newLog()
	lookup := func(name string) string {
		if value := getenv(env, name); value != "" || name != "WORKER_PORT" {
			return value
		}
		return "0"
	}
	p := &program{getenv: lookup, environ: environ(env), stdout: io.Discard, stderr: stderr, abort: t.Context()}
	code := make(chan int, 1)
	go func() { code <- p.run(ctx, append([]string{"phxworker"}, args...)) }()
	return stderr, func() int {
		cancel()
		return <-code
	}
}

// wait returns how a run ended at the server.
func wait(t testing.TB, server *mockserver.Server, id string) mockserver.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	result, err := server.Wait(ctx, id)
	require.NoError(t, err)
	return result
}

func enqueue(t testing.TB, server *mockserver.Server, id, body string) {
	t.Helper()
	plan, err := json.Marshal(map[string]any{"id": id, "jobs": []any{map[string]string{"id": "a", "adaptor": "@openfn/language-common@latest", "body": body}}})
	require.NoError(t, err)
	_, err = server.Enqueue(mockserver.Run{Plan: plan, Queue: "manual"})
	require.NoError(t, err)
}

// sent returns the text frames from clients that have the words in them.
func sent(server *mockserver.Server, words ...string) (frames []string) {
	for _, e := range server.Transcript() {
		text, all := string(e.Data), e.Direction.String() == "from client"
		for _, word := range words {
			all = all && strings.Contains(text, word)
		}
		if all {
			frames = append(frames, text)
		}
	}
	return frames
}

func TestStartExecutesRunsAndStopsInGoodOrder(t *testing.T) {
	server := startServer(t, "")
	stderr, stop := start(t, map[string]string{"WORKER_SECRET": secret, "DEPLOYED_POD_NAME": "pod-7", "WORKER_LIGHTNING_PUBLIC_KEY": server.PublicKey()},
		"--lightning", server.URL(), "--workloops", "fast_lane:1 manual>*:2", "--state-props-to-remove", "configuration", "token")
	stderr.await(t, "joined the queue")
	enqueue(t, server, "r", "fn(s => ({ ...s, data: 42, token: 'x', response: 'kept' }))")
	result := wait(t, server, "r")
	require.Equal(t, 0, stop())

	require.Equal(t, lightning.Success, result.State, result.ErrorMessage)
	require.JSONEq(t, `{"data":42,"response":"kept"}`, string(result.FinalState))
	record, _ := server.Inspect("r")
	require.Equal(t, "pod-7", record.WorkerName)
	require.NotEmpty(t, sent(server, "worker:queue", "phx_join", `"fast_lane":1`, `"manual>*":2`))
	require.NotEmpty(t, sent(server, "worker:queue", "phx_leave"))
	require.Zero(t, server.Stats().Workers)
}

func TestStartSaysOnceThatAnOptionHasNoEffect(t *testing.T) {
	server := startServer(t, "")
	stderr, stop := start(t, map[string]string{"WORKER_PROFILE": "true"}, "-l", server.URL(), "-s", secret, "--timeout-retry-count", "3", "--log-format", "json")
	line := stderr.await(t, "has no effect")
	require.Contains(t, line, `"level":"WARN","msg":"option has no effect","option":"WORKER_PROFILE","reason":"there is no profiler in the worker"`)
	require.Contains(t, stderr.await(t, "has no effect"), `"option":"--timeout-retry-count"`)
	stderr.await(t, "joined the queue")
	require.Equal(t, 0, stop())
	require.Empty(t, sent(server, secret), "the secret itself is never sent")
}

// A worker whose output is collected logs for programs.
func TestLogsAreJSONUnlessThereIsATerminal(t *testing.T) {
	server := startServer(t, "")
	stderr, stop := start(t, nil, "-l", server.URL(), "-s", secret)
	require.Regexp(t, `^\{"time":.*"msg":"starting","version":"dev".*"engine":"auto"\}$`, stderr.await(t, "starting"))
	require.Equal(t, 0, stop())
}

// Guards against two lines that say the same when a signal comes.
func TestTheFirstSignalIsToldOnce(t *testing.T) {
	server := startServer(t, "")
	stderr, stop := start(t, nil, "-l", server.URL(), "-s", secret)
	stderr.await(t, "joined the queue")
	require.Equal(t, 0, stop())
	var claims, signals int
	for len(stderr.lines) > 0 {
		line := <-stderr.lines
		if strings.Contains(line, "no more claims") {
			claims++
		}
		if strings.Contains(line, "a second signal cancels the runs under way") {
			signals++
		}
	}
	require.Equal(t, 1, claims)
	require.Zero(t, signals, "there is nothing to cancel")
}

func TestStartTakesItsSettingsFromAFile(t *testing.T) {
	server := startServer(t, "")
	path := filepath.Join(t.TempDir(), "phxworker.yaml")
	text := "lightning: " + server.URL() + "\nsecret: " + secret + "\nqueues: fast_lane:1 manual>*:2\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	stderr, stop := start(t, map[string]string{"WORKER_CONFIG": path})
	stderr.await(t, "joined the queue")
	require.Equal(t, 0, stop())
	require.NotEmpty(t, sent(server, "worker:queue", "phx_join", `"fast_lane":1`, `"manual>*":2`))
}

func TestStartTellsWhyTheServerRefusesTheToken(t *testing.T) {
	server := startServer(t, "")
	stderr, stop := start(t, nil, "-l", server.URL(), "-s", "another secret")
	line := stderr.await(t, "not connected")
	require.Contains(t, line, "401 Unauthorized")
	require.Contains(t, line, "check the token, the secret it is made with, and the clock")
	require.NotContains(t, line, "another secret")
	require.NotContains(t, line, "token=")
	require.Equal(t, 0, stop(), "a worker that is not connected stops as well")
}

func TestStartKeepsTryingUntilTheServerIsThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := listener.Addr().String()
	require.NoError(t, listener.Close())

	stderr, stop := start(t, nil, "-l", "ws://"+addr+"/worker", "-s", secret)
	require.Contains(t, stderr.await(t, "not connected, trying again"), "connection refused")
	startServer(t, addr)
	stderr.await(t, "joined the queue")
	require.Equal(t, 0, stop())
}

// mockEndpoint is the command line "--lightning mock".
type mockEndpoint struct{}

func (mockEndpoint) IsSet(name string) bool      { return name == "lightning" }
func (mockEndpoint) String(string) string        { return "mock" }
func (mockEndpoint) Bool(string) bool            { return false }
func (mockEndpoint) StringSlice(string) []string { return nil }

// The two binaries are started side by side with no secret given; guards against
// a default that is changed in one of them only.
func TestMockEndpointHasTheDefaultSecretOfTheMockServer(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "mockserver")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../mockserver")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))

	stdout := newLog()
	server := exec.CommandContext(t.Context(), binary, "--port", "0")
	server.Env, server.Stdout = []string{}, stdout
	require.NoError(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill() })
	fields := strings.Fields(stdout.await(t, "WORKER_SECRET"))
	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	require.NoError(t, server.Wait())

	settings, err := options.Read(mockEndpoint{}, func(string) string { return "" })
	require.NoError(t, err)
	require.Equal(t, fields[len(fields)-1], settings.Worker.Secret)
}
