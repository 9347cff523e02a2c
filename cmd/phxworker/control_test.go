package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/cmd/phxworker/token"
	"github.com/phxworker/phxworker/mockserver"
)

// served is a worker that is controlled over HTTP.
type served struct {
	t        *testing.T
	upstream *mockserver.Server
	stderr   *log
	stop     func() int
	address  string
	serving  string // the line that tells it
}

func serveWorker(t *testing.T, args ...string) *served {
	t.Helper()
	s := &served{t: t, upstream: startServer(t, "")}
	s.stderr, s.stop = start(t, nil, append([]string{"-l", s.upstream.URL(), "-s", secret, "--host", "127.0.0.1", "--log-format", "text"}, args...)...)
	s.serving = s.stderr.await(t, "msg=serving")
	s.address = regexp.MustCompile(`http://[\d.:]+`).FindString(s.serving)
	s.stderr.await(t, "joined the queue")
	require.Eventually(t, func() bool { // the engine is asked beside the join
		response, err := http.Get(s.address + "/readyz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, patient, time.Millisecond)
	return s
}

// execute runs a command about the worker.
func (s *served) execute(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	return execute(s.t.Context(), map[string]string{"WORKER_HTTP_URL": s.address}, args...)
}

// hold enqueues a run and returns when it has begun.
func (s *served) hold(id string) {
	s.t.Helper()
	enqueue(s.t, s.upstream, id, "fn(async s => { console.log('under way'); await new Promise(done => setTimeout(done, 60000)); return s; })")
	require.Eventually(s.t, func() bool { return len(sent(s.upstream, "run:log", "under way")) > 0 }, patient, 1e6)
}

func TestPauseResumeAndSlotsOfAWorker(t *testing.T) {
	s := serveWorker(t, "--workloops", "fast_lane:1 manual>*:2")
	_, stdout, stderr := s.execute("pause", "manual>*")
	require.Empty(t, stderr)
	require.Regexp(t, `manual>\* +2 .* paused\n`, stdout)
	require.NotContains(t, stdout, "fast_lane")
	s.stderr.await(t, "paused: no more claims")

	_, stdout, _ = s.execute("resume")
	require.Contains(t, stdout, "fast_lane")
	require.NotContains(t, stdout, "paused")

	_, stdout, _ = s.execute("slots", "manual,*:6 fast_lane:3")
	require.Regexp(t, `manual>\* +6 `, stdout)
	require.Regexp(t, `fast_lane +3 `, stdout)

	code, stdout, stderr := s.execute("slots", "manual>*:5 nosuch:2 fast_lane:4")
	require.Equal(t, exitFailure, code)
	require.Regexp(t, `manual>\* +5 `, stdout, "what was changed before is shown")
	require.NotContains(t, stdout, "fast_lane")
	require.Equal(t, "phxworker: there is no slot group \"nosuch\"; the groups are fast_lane, manual>*\n", stderr)

	code, _, stderr = s.execute("pause", "manual")
	require.Equal(t, exitFailure, code)
	require.Equal(t, "phxworker: there is no slot group \"manual\"; the groups are fast_lane, manual>*\n", stderr)
	code, _, stderr = s.execute("cancel", "none")
	require.Equal(t, exitFailure, code)
	require.Equal(t, "phxworker: no such run is under way in this worker\n", stderr)
}

func TestDrainWaitsForTheEndOfAWorker(t *testing.T) {
	s := serveWorker(t)
	code, stdout, stderr := s.execute("drain", "--wait")
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, "draining: no more claims, runs under way: 0\nthe worker has ended\n", stdout)
	require.Equal(t, exitOK, s.stop(), "the worker ended in good order")
	code, _, stderr = s.execute("status") // it may have answered until its process was over
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "no worker answers at "+s.address+": ")
}

// A job, or another user of the machine, that gets to the port of a worker on loopback
// is refused; a person of the worker's user types nothing.
func TestTheTokenThatAWorkerMakesIsForItsUser(t *testing.T) {
	s := serveWorker(t)
	for _, control := range []string{"/pause", "/drain", "/runs/r/cancel"} {
		response, err := http.Post(s.address+control, "text/plain", nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusUnauthorized, response.StatusCode, control)
	}
	http.DefaultClient.CloseIdleConnections()

	file := filepath.Join(ofTests, "phxworker", strings.TrimPrefix(s.address, "http://")+".token")
	require.Contains(t, s.serving, "token_file="+file)
	info, err := os.Lstat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	made, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, address := range []string{s.address, strings.Replace(s.address, "127.0.0.1", "localhost", 1)} {
		code, _, stderr := execute(t.Context(), map[string]string{"WORKER_HTTP_URL": address}, "pause")
		require.Equal(t, exitOK, code, stderr)
	}
	code, _, stderr := execute(t.Context(), map[string]string{"WORKER_HTTP_URL": s.address, "XDG_RUNTIME_DIR": "", "TMPDIR": t.TempDir()}, "pause")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "phxworker: "+s.address+": this worker asks for a token, and none is kept for it in ")
	require.Contains(t, stderr, ": run this as the user of the worker (sudo -u USER), with its TMPDIR and XDG_RUNTIME_DIR (its log names the file where it says serving), or give it with --http-token-file or WORKER_HTTP_TOKEN\n")

	require.NoError(t, os.Chmod(filepath.Dir(file), 0o777))
	code, _, stderr = s.execute("pause")
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o700))
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "this worker asks for a token, and "+filepath.Dir(file)+" can be written to by others: chmod go= "+filepath.Dir(file)+": run this as")

	code, _, stderr = s.execute("drain", "--wait")
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, exitOK, s.stop())
	require.NoFileExists(t, file, "it ends with the worker")
	for len(s.stderr.lines) > 0 {
		require.NotContains(t, <-s.stderr.lines, strings.TrimSpace(string(made)))
	}
}

// Guards against the end of a worker that has nowhere to put its token: on an empty,
// read-only image, for instance.
func TestAWorkerThatCannotKeepATokenWorksAndIsNotControlled(t *testing.T) {
	upstream := startServer(t, "")
	file := filepath.Join(t.TempDir(), "no-folder")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("TMPDIR", file)
	env := map[string]string{"XDG_RUNTIME_DIR": file, "WORKER_SECRET": secret}
	stderr, stop := start(t, env, "-l", upstream.URL(), "--host", "127.0.0.1", "--log-format", "text", "--engine", "js")
	warning := stderr.await(t, "level=WARN")
	require.Contains(t, warning, "controls are off: their token cannot be kept; set XDG_RUNTIME_DIR to a folder of the worker's user")
	require.Contains(t, warning, file+"/phxworker: not a directory; mkdir "+file+"/phxworker-")
	address := regexp.MustCompile(`http://[\d.:]+`).FindString(stderr.await(t, "msg=serving"))
	stderr.await(t, "joined the queue")
	code, _, told := execute(t.Context(), map[string]string{"WORKER_HTTP_URL": address}, "pause")
	require.Equal(t, exitFailure, code)
	require.Contains(t, told, "phxworker: controls are off, for this worker has no token: set --http-token-file or WORKER_HTTP_TOKEN; its log says why it has made none\n")
	enqueue(t, upstream, "r", "fn(s => s)")
	require.Equal(t, "success", wait(t, upstream, "r").Reason)
	require.Equal(t, exitOK, stop())
}

func TestATokenIsAskedForAndTaken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("open-sesame\n"), 0o600))
	s := serveWorker(t, "--http-token-file", file)
	code, _, stderr := s.execute("pause")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "phxworker: "+s.address+": this worker asks for a token, and none is kept for it in ")
	code, _, stderr = s.execute("pause", "--http-token", "guess")
	require.Equal(t, exitFailure, code)
	require.Equal(t, "phxworker: "+s.address+" does not take the token: what it has is what it was given as --http-token, --http-token-file or WORKER_HTTP_TOKEN\n", stderr)
	code, _, stderr = s.execute("pause", "--http-token", "open-sesame", "--http-token-file", file)
	require.Equal(t, exitUsage, code)
	require.Equal(t, "phxworker: --http-token and --http-token-file exclude each other: keep one of them\n", stderr)
	code, _, _ = s.execute("status")
	require.Equal(t, exitOK, code, "to read needs none")
	code, _, stderr = s.execute("pause", "--http-token", "open-sesame")
	require.Equal(t, exitOK, code, stderr)
	for _, env := range []map[string]string{{"WORKER_HTTP_TOKEN": "open-sesame"}, {"WORKER_HTTP_TOKEN_FILE": file}} {
		env["WORKER_HTTP_URL"] = s.address
		code, _, stderr = execute(t.Context(), env, "resume")
		require.Equal(t, exitOK, code, stderr)
	}

	// A worker that was killed has left another one for the address.
	left, err := token.Keep(token.Folders(func(name string) string { return getenv(nil, name) }), nil, stringAddr(strings.TrimPrefix(s.address, "http://")), token.New())
	require.NoError(t, err)
	defer left.Remove()
	code, _, stderr = s.execute("pause")
	require.Equal(t, exitFailure, code)
	require.Equal(t, "phxworker: "+s.address+" does not take the token in "+left.Path()+", which another worker has left there: this one was given its own, so give it with --http-token-file or WORKER_HTTP_TOKEN\n", stderr)
}

// A token is good for one worker, at one address. Whoever listens elsewhere, by the
// same port or the same name, must not get it.
func TestATokenIsSentNowhereElse(t *testing.T) {
	got := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	folders := token.Folders(func(name string) string { return getenv(nil, name) })
	for _, other := range []string{"127.0.0.2:%d", "[::1]:%d", "10.0.0.1:%d"} {
		kept, err := token.Keep(folders, nil, stringAddr(fmt.Sprintf(other, port)), token.New())
		require.NoError(t, err)
		defer kept.Remove()
	}
	for _, address := range []string{server.URL, fmt.Sprintf("http://localhost:%d", port)} {
		code, _, _ := execute(t.Context(), map[string]string{"WORKER_HTTP_URL": address}, "pause")
		require.Equal(t, exitFailure, code)
	}
	require.NotEmpty(t, got)
	for len(got) > 0 {
		require.Empty(t, <-got)
	}

	key := token.New()
	kept, err := token.Keep(folders, nil, server.Listener.Addr(), key)
	require.NoError(t, err)
	defer kept.Remove()
	execute(t.Context(), map[string]string{"WORKER_HTTP_URL": server.URL}, "pause")
	require.Equal(t, "Bearer "+key, <-got, "and this one does")
}

// stringAddr is an address as it is written.
type stringAddr string

func (stringAddr) Network() string  { return "tcp" }
func (a stringAddr) String() string { return string(a) }

func TestTheNumbersOfAWorkerAreServed(t *testing.T) {
	s := serveWorker(t, "--engine", "js")
	response, err := http.Get(s.address + "/metrics")
	require.NoError(t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `phxworker_slots{group="manual>*"} 5`)
	require.Contains(t, string(text), "phxworker_engine_processes 0")
}

func TestAWorkerWithoutALoopIsAskedOverHTTP(t *testing.T) {
	s := serveWorker(t, "--no-loop")
	enqueue(t, s.upstream, "r", "fn(s => s)")
	response, err := http.Post(s.address+"/claim", "", nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Equal(t, "success", wait(t, s.upstream, "r").Reason)
	http.DefaultClient.CloseIdleConnections()

	code, _, stderr := s.execute("resume")
	require.Equal(t, exitOK, code, stderr)
	enqueue(t, s.upstream, "unasked", "fn(s => s)")
	require.Equal(t, "success", wait(t, s.upstream, "unasked").Reason, "it has a loop from then on")
}

func TestATakenPortIsToldBeforeAnythingIsClaimed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	upstream := startServer(t, "")
	code, _, stderr := execute(t.Context(), nil, "-l", upstream.URL(), "-s", secret, "--host", "127.0.0.1", "--port", port)
	require.Equal(t, exitFailure, code, "it may be free the next time")
	require.Equal(t, "--port "+port+" is taken on this machine: give another, 0 for any free one, or off", ended(t, stderr))
	require.Empty(t, upstream.Transcript())

	code, _, stderr = execute(t.Context(), nil, "-l", upstream.URL(), "-s", secret, "--host", "no-such-host.invalid")
	require.Equal(t, exitFailure, code)
	require.Contains(t, ended(t, stderr), "--host no-such-host.invalid cannot be listened at: ")

	code, _, stderr = execute(t.Context(), nil, "-l", upstream.URL(), "-s", secret, "--host", "127.0.0.1", "--port", port, "--engine", "false")
	require.Equal(t, exitFailure, code)
	require.Contains(t, ended(t, stderr), `--engine "false": `, "the port is asked for when there is something to answer at it")
}

func TestAWorkerWithoutHTTPServesNothing(t *testing.T) {
	upstream := startServer(t, "")
	stderr, stop := start(t, map[string]string{"WORKER_PORT": "off"}, "-l", upstream.URL(), "-s", secret)
	stderr.await(t, "joined the queue")
	require.Equal(t, exitOK, stop())
	for len(stderr.lines) > 0 {
		require.NotContains(t, <-stderr.lines, "serving")
	}
}

func TestControlsThatSayNothingClear(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"status of something", nil, []string{"status", "now"}, `unknown command or argument "now"; see phxworker --help`},
		{"two groups", nil, []string{"pause", "a", "b"}, "one group at most, or none for all; see phxworker pause --help"},
		{"a group without a name", nil, []string{"pause", ""}, "the group has no name: name one, or leave it out for all; see phxworker pause --help"},
		{"a group to resume without a name", nil, []string{"resume", ""}, "the group has no name: name one, or leave it out for all; see phxworker resume --help"},
		{"no run", nil, []string{"cancel"}, "give one run id, as in phxworker cancel RUN"},
		{"two runs", nil, []string{"cancel", "a", "b"}, "give one run id, as in phxworker cancel RUN"},
		{"no slots", nil, []string{"slots"}, `give the groups, as in phxworker slots "manual>*:6"`},
		{"malformed slots", nil, []string{"slots", "manual"}, `slot group "manual": the number of slots is missing; write it after a colon, with no space before it: "manual:1"`},
		{"a group twice", nil, []string{"slots", "manual>*:6 manual,*:3"}, `the slot group "manual>*" is named twice: keep one of them`},
		{"unknown option", nil, []string{"drain", "--now"}, "unknown option --now; see phxworker drain --help"},
		{"no URL", nil, []string{"status", "--url", "localhost:2222"}, "--url is not the address of a worker: write it like http://127.0.0.1:2222"},
		{"no URL in the environment", map[string]string{"WORKER_HTTP_URL": "x"}, []string{"status"}, "WORKER_HTTP_URL is not the address of a worker: write it like http://127.0.0.1:2222"},
		{"a port that the system chooses", map[string]string{"WORKER_PORT": "0"}, []string{"status"}, `WORKER_PORT is "0", which does not tell where the worker is: its log does, if it serves HTTP at all; give that address with --url`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requireUsageError(t, tt.want, tt.env, tt.args...)
		})
	}
}

func TestWhereTheWorkerIs(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		told string
		want string
	}{
		{"by default", nil, "", "http://127.0.0.1:2222"},
		{"told", map[string]string{"WORKER_HTTP_URL": "http://a:1"}, "http://b:2", "http://b:2"},
		{"in the environment", map[string]string{"WORKER_HTTP_URL": "http://a:1", "WORKER_PORT": "3"}, "", "http://a:1"},
		{"the port of the worker", map[string]string{"WORKER_PORT": "3000"}, "", "http://127.0.0.1:3000"},
		{"the host of the worker", map[string]string{"WORKER_HOST": "::1"}, "", "http://[::1]:2222"},
		{"every address of the machine, as told", nil, "http://0.0.0.0:2314", "http://127.0.0.1:2314"},
		{"every address of the machine, without a port", nil, "http://[::]", "http://127.0.0.1"},
		{"every address of the machine", map[string]string{"WORKER_HOST": "0.0.0.0"}, "", "http://127.0.0.1:2222"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &program{getenv: func(name string) string { return tt.env[name] }}
			u, err := p.workerURL(tt.told)
			require.NoError(t, err)
			require.Equal(t, tt.want, u.String())
		})
	}
}
