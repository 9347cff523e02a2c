package deploy

import (
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

// patient is how long to wait for what takes milliseconds.
const patient = 20 * time.Second

// worker is the binary at work for a mock Lightning.
type worker struct {
	t      *testing.T
	server *mockserver.Server
	cmd    *exec.Cmd
	stderr *output
	url    string // of its HTTP server
}

func startServer(t *testing.T) *mockserver.Server {
	t.Helper()
	return mockserver.NewTest(t, mockserver.Config{WakeDebounce: -1})
}

// start starts a command with these variables, and no others, and waits until it
// listens.
func start(t *testing.T, server *mockserver.Server, cmd *exec.Cmd, environment map[string]string) *worker {
	t.Helper()
	w := &worker{t: t, server: server, cmd: cmd, stderr: &output{}}
	for name, value := range environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stderr = w.stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test fails before it stops
	listens := regexp.MustCompile(`http://[\w.:\[\]]+:(\d+)`)
	require.Eventually(t, func() bool { return listens.MatchString(w.stderr.String()) }, patient, 5*time.Millisecond,
		"the log does not tell where the worker listens:\n%s", w.stderr)
	w.url = "http://127.0.0.1:" + listens.FindStringSubmatch(w.stderr.String())[1]
	return w
}

// get returns status and body of a path; 0 while there is no answer.
func (w *worker) get(path string) (int, string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+path, nil)
	require.NoError(w.t, err)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(w.t, err)
	return response.StatusCode, string(body)
}

// answers waits until a path answers with 200.
func (w *worker) answers(path string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { code, _ := w.get(path); return code == http.StatusOK }, patient, 5*time.Millisecond, path)
}

// stop stops it as Kubernetes, Docker and systemd do, and returns its exit code.
func (w *worker) stop() int {
	w.t.Helper()
	require.NoError(w.t, w.cmd.Process.Signal(syscall.SIGTERM))
	_ = w.cmd.Wait()
	return w.cmd.ProcessState.ExitCode()
}

// output is what a process writes, while it does.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Clone(o.text.String())
}
