package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/fence"
	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
)

// engineOf returns the engine that run:start named.
func engineOf(t *testing.T, server *mockserver.Server, id string) string {
	t.Helper()
	record, _ := server.Inspect(id)
	for _, e := range record.Events {
		var p struct{ Versions struct{ Engine string } }
		if e.Event == "run:start" {
			require.NoError(t, json.Unmarshal(e.Payload, &p))
			return p.Versions.Engine
		}
	}
	return ""
}

// Guards against a status that waits until a process was started, for up to ten seconds.
func TestTheFencesAreKnownOnceTheyWereTried(t *testing.T) {
	states := fence.Probe(t.Context())
	tried := 0
	try, known := once(func() []fence.State { tried++; return states })
	require.Nil(t, known())
	require.Equal(t, states, try())
	require.Equal(t, states, try())
	require.Equal(t, states, known())
	require.Equal(t, 1, tried)
}

// A job that says what QuickJS may do otherwise goes to Node, and any other does not; the
// adaptor does what it is for.
func TestAutoTakesTheEngineThatARunNeeds(t *testing.T) {
	if testing.Short() {
		t.Skip("nearly all of its time goes into npm")
	}
	runtest.Need(t, "node")
	var asked string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"patients":3}`))
	}))
	t.Cleanup(web.Close)
	server := startServer(t, "")
	stderr, stop := start(t, nil, "-l", server.URL(), "-s", secret, "--repo-dir", runtest.Adaptors(t))
	stderr.await(t, "joined the queue")

	enqueue(t, server, "plain", "fn(s => ({ ...s, data: 1 }))")
	require.Equal(t, "success", wait(t, server, "plain").Reason)
	require.Equal(t, "js", engineOf(t, server, "plain"))

	record := executeHTTP(t, server, "published", "fn(s => ({ data: util.encode('a') }))")
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.JSONEq(t, `{"data":"YQ=="}`, string(record.FinalState))
	require.Equal(t, "js", engineOf(t, server, "published"))

	record = executeHTTP(t, server, "http", "post('"+web.URL+"/count', { body: { of: 'patients' } }).catch(error => { throw error; })")
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.Equal(t, "POST /count", asked)
	var state struct{ Data struct{ Patients int } }
	require.NoError(t, json.Unmarshal(record.FinalState, &state))
	require.Equal(t, 3, state.Data.Patients)
	require.Equal(t, "openfn", engineOf(t, server, "http"))
	require.Equal(t, exitOK, stop())
}

// executeHTTP has a job of language-http executed, which may have to be installed first.
func executeHTTP(t *testing.T, server *mockserver.Server, id, body string) mockserver.RunRecord {
	t.Helper()
	code, _ := json.Marshal(body)
	plan := `{"id":"` + id + `","jobs":[{"id":"a","adaptor":"@openfn/language-http@7.2.10","body":` + string(code) + `}]}`
	_, err := server.Enqueue(mockserver.Run{Plan: json.RawMessage(plan)})
	require.NoError(t, err)
	require.Eventually(t, func() bool { record, _ := server.Inspect(id); return record.State.Final() }, 3*time.Minute, 10*time.Millisecond)
	record, _ := server.Inspect(id)
	return record
}

// Without Node, the worker executes the published adaptors. It says as it starts that there is none, and a run that needs
// it ends with a sentence, before it starts; nothing is installed for that.
func TestWithoutNode(t *testing.T) {
	if testing.Short() {
		t.Skip("nearly all of its time goes into npm")
	}
	adaptors := runtest.Adaptors(t)
	t.Setenv("PATH", t.TempDir())
	server := startServer(t, "")
	stderr, stop := start(t, nil, "-l", server.URL(), "-s", secret, "--repo-dir", adaptors)
	stderr.await(t, "and there is none in PATH") // looked for while the worker joins

	record := executeHTTP(t, server, "published", "fn(s => ({ data: util.encode('a') }))")
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.Equal(t, "js", engineOf(t, server, "published"))

	record = executeHTTP(t, server, "http", "get('/').catch(() => {})")
	require.Equal(t, "exception", record.Reason)
	require.Empty(t, engineOf(t, server, "http"), "it has not started")
	require.Contains(t, record.ErrorMessage, "install Node 20.20")
	require.Contains(t, record.ErrorMessage, "; this run cannot do without: job a says catch, which may come to something else in Node")
	require.Equal(t, exitOK, stop())
}

// Any program that speaks the protocol is an engine.
func TestACommandIsAnEngine(t *testing.T) {
	runtest.Need(t, "python3")
	script, err := filepath.Abs("../../examples/engine/engine.py")
	require.NoError(t, err)
	server := startServer(t, "")
	stderr, stop := start(t, nil, "-l", server.URL(), "-s", secret, "--engine", "python3 '"+script+"'")
	stderr.await(t, "joined the queue")
	plan := `{"id":"python","jobs":[{"id":"a","body":"{'data': 40 + 2}"}]}`
	_, err = server.Enqueue(mockserver.Run{Plan: json.RawMessage(plan)})
	require.NoError(t, err)
	require.JSONEq(t, `{"data":42}`, string(wait(t, server, "python").FinalState))
	require.Equal(t, exitOK, stop())
}

// A worker whose engine cannot work must not take runs only to lose them.
func TestAnEngineThatIsNotThereIsToldAtTheStart(t *testing.T) {
	code, _, stderr := execute(t.Context(), nil, "-l", "mock", "--engine", "openfn", "--repo-dir", "engine_test.go")
	require.Equal(t, exitUsage, code)
	require.Equal(t, "--repo-dir \"engine_test.go\" is not a folder: name one that is there or can be made", ended(t, stderr))

	loop := filepath.Join(t.TempDir(), "loop") // as little to be used as what the user has no rights to
	require.NoError(t, os.Symlink(loop, loop))
	for _, args := range [][]string{{"-l", "mock", "--repo-dir", loop}, {"adaptors", "list", "--repo-dir", loop}} {
		code, _, stderr = execute(t.Context(), nil, args...)
		require.Equal(t, exitUsage, code, stderr)
		require.Contains(t, stderr, "the folder for adaptors (--repo-dir) cannot be used: ")
		require.Contains(t, stderr, "; name one of this user's with --repo-dir, or set HOME to a folder of this user's")
	}

	code, _, stderr = execute(t.Context(), nil, "-l", "mock", "--engine", "false")
	require.Equal(t, exitFailure, code, "it may answer the next time")
	require.Contains(t, ended(t, stderr), `--engine "false": The engine could not be started`)

	t.Setenv("PATH", t.TempDir())
	code, _, stderr = execute(t.Context(), nil, "-l", "mock", "--engine", "openfn", "--repo-dir", t.TempDir())
	require.Equal(t, exitUsage, code)
	require.Equal(t, "--engine openfn: the OpenFn engine needs Node, and there is none in PATH: install Node 20.20, 22.22, 24.13 or later; or use --engine js", ended(t, stderr))
}

// A Node that runs no jobs is told at the start as well, not only by the first run.
func TestANodeThatIsTooOldIsToldAtTheStart(t *testing.T) {
	dir := t.TempDir()
	old := "#!/bin/sh\necho '{\"version\":\"20.16.0\",\"flags\":[\"--experimental-permission\"]}'\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "node"), []byte(old), 0o755))
	t.Setenv("PATH", dir)
	server := startServer(t, "")
	stderr, stop := start(t, nil, "-l", server.URL(), "-s", secret, "--repo-dir", t.TempDir())
	stderr.await(t, "node is 20.16.0, which does not keep jobs from the files of the worker")
	require.Equal(t, exitOK, stop())

	code, _, told := execute(t.Context(), nil, "-l", server.URL(), "-s", secret, "--engine", "openfn", "--repo-dir", t.TempDir())
	require.Equal(t, exitUsage, code)
	require.Contains(t, told, "node is 20.16.0, which does not keep jobs from the files of the worker; or use --engine js")
}

// script writes a program that keeps its count of starts in a file.
func script(t *testing.T, body string) (path, starts string) {
	t.Helper()
	dir := t.TempDir()
	path, starts = filepath.Join(dir, "engine"), filepath.Join(dir, "starts")
	text := "#!/bin/sh\necho started >> '" + starts + "'\n" + body + "\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	return path, starts
}

func count(t *testing.T, starts string) int {
	t.Helper()
	text, err := os.ReadFile(starts)
	require.NoError(t, err)
	return strings.Count(string(text), "started")
}

func TestACommandIsAskedAsLongAndAsOftenAsTheOptionsSay(t *testing.T) {
	t.Run("it never answers", func(t *testing.T) {
		path, _ := script(t, "exec sleep 1000")
		code, _, stderr := execute(t.Context(), nil, "-l", "mock", "--engine", path+" hidden-argument",
			"--engine-validation-timeout-ms", "50", "--engine-validation-retries", "1")
		require.Equal(t, exitFailure, code)
		require.Contains(t, ended(t, stderr), "it has not answered in 50ms, 2 times: see that it sends its first message when it starts, or set --engine-validation-timeout-ms")
	})
	t.Run("no retries", func(t *testing.T) {
		path, starts := script(t, "exit 1")
		code, _, _ := execute(t.Context(), nil, "-l", "mock", "--engine", path, "--engine-validation-retries", "0")
		require.Equal(t, exitFailure, code)
		require.Equal(t, 1, count(t, starts))
	})
	t.Run("the third time", func(t *testing.T) {
		path, starts := script(t, `[ "$(wc -l < "$(dirname "$0")/starts")" -lt 3 ] && exit 1
echo '{"type":"ready"}'; cat > /dev/null`)
		server := startServer(t, "")
		stderr, stop := start(t, nil, "-l", server.URL(), "-s", secret, "--engine", path+" hidden-argument", "--log-format", "text")
		line := stderr.await(t, "msg=starting")
		require.Contains(t, line, "engine=engine")
		require.NotContains(t, line, "hidden-argument")
		require.Equal(t, exitOK, stop())
		require.GreaterOrEqual(t, count(t, starts), 3)
	})
}

// Guards against a worker that goes on for ever without claiming, where somebody has to
// change what it was told to work with.
func TestARepoDirThatCannotBeWrittenEndsTheWorker(t *testing.T) {
	runtest.Need(t, "node")
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a folder that nobody can write to")
	}
	server := startServer(t, "")
	enqueue(t, server, "a", "fn(s => s)")
	stderr, stop := start(t, nil, "-l", server.URL(), "-s", secret, "--repo-dir", "/sys/phxworker")
	stderr.await(t, "the folder for adaptors cannot be used")
	require.Equal(t, exitUsage, stop())
	record, _ := server.Inspect("a")
	require.EqualValues(t, "available", record.State)
}
