package phoenix_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
)

// needElixir skips a test where there is no Elixir. It reads what Elixir will, so that go
// test knows that it must run again when that has changed.
func needElixir(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("its time goes into Elixir")
	}
	for _, pattern := range []string{"*.exs", "config/*", "lib/*", "test/*.exs", "test/fake/*"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, path := range paths {
			_, err := os.ReadFile(path)
			require.NoError(t, err)
		}
	}
	if _, err := exec.LookPath("elixir"); err != nil {
		t.Skip("elixir is not in PATH: the Elixir is compared with the Go types, but not run")
	}
}

// phoenix is the application, served by test/server.exs.
type phoenix struct {
	t       *testing.T
	stdin   io.WriteCloser
	results chan string
	port    string

	mu     sync.Mutex
	frames []string // "-> [...]" from workers, "<- [...]" to them
}

func servePhoenix(t *testing.T, terms ...string) *phoenix {
	t.Helper()
	needElixir(t)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "elixir", append([]string{"test/server.exs"}, terms...)...)
	var failure strings.Builder
	cmd.Stderr = &failure
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &phoenix{t: t, stdin: stdin, results: make(chan string)}
	ports := make(chan string, 1)
	var reading sync.WaitGroup
	reading.Go(func() { p.read(stdout, ports) })
	t.Cleanup(func() {
		_ = stdin.Close() // the end of its input is the end of the server
		reading.Wait()
		require.NoError(t, cmd.Wait(), failure.String())
	})
	select {
	case p.port = <-ports:
	case <-time.After(patience):
		require.Fail(t, "the server did not start", failure.String())
	}
	return p
}

func (p *phoenix) read(stdout io.Reader, ports chan<- string) {
	defer close(p.results)
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		kind, text, _ := strings.Cut(lines.Text(), " ")
		switch kind {
		case "port":
			ports <- text
		case "=":
			p.results <- text
		default:
			p.mu.Lock()
			p.frames = append(p.frames, lines.Text())
			p.mu.Unlock()
		}
	}
}

// eval has the server evaluate a line of Elixir.
func (p *phoenix) eval(format string, args ...any) string {
	p.t.Helper()
	_, err := fmt.Fprintf(p.stdin, format+"\n", args...)
	require.NoError(p.t, err)
	return receive(p.t, p.results)
}

func (p *phoenix) enqueue(id string) {
	p.t.Helper()
	require.Equal(p.t, ":ok", p.eval(`RunQueue.enqueue(%%{id: %q, plan: %%{"id" => %q, "jobs" => []}})`, id, id))
}

// events returns how often each event went one way.
func (p *phoenix) events(arrow string) map[string]int {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	events := make(map[string]int)
	for _, frame := range p.frames {
		if data, ok := strings.CutPrefix(frame, arrow+" "); ok {
			var parts [5]json.RawMessage
			require.NoError(p.t, json.Unmarshal([]byte(data), &parts), data)
			events[strings.Trim(string(parts[3]), `"`)]++
		}
	}
	return events
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.Fail(t, "nothing came")
		panic("not reached")
	}
}

// hire runs a worker that offers everything.
func (p *phoenix) hire(cfg phxworker.Config) (worker *phxworker.Worker, results <-chan phxworker.RunResult, ended <-chan error) {
	p.t.Helper()
	after, end := make(chan phxworker.RunResult, 100), make(chan error, 1)
	cfg.URL, cfg.Secret = "ws://127.0.0.1:"+p.port+"/worker", "mock-worker-secret"
	cfg.Extensions = []string{phxworker.AllExtensions}
	cfg.Claim.MinBackoff, cfg.Claim.MaxBackoff = 10*time.Millisecond, 100*time.Millisecond
	cfg.Hooks.AfterRun = func(result phxworker.RunResult) { after <- result }
	worker, err := phxworker.New(cfg)
	require.NoError(p.t, err)
	ctx, cancel := context.WithCancel(p.t.Context())
	var running sync.WaitGroup
	running.Go(func() { end <- worker.Run(ctx) })
	p.t.Cleanup(func() { cancel(); worker.Abort(); running.Wait() })
	return worker, after, end
}
