package packages

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/npmtest"
	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/openfn"
)

const languageX = "@openfn/language-x@1.0.0"

func serve(t *testing.T) *npmtest.Registry {
	t.Helper()
	registry := npmtest.Serve(t)
	registry.Use(t)
	registry.Publish(t, "@openfn/language-x", "1.0.0", "", "package/index.js", common)
	return registry
}

func runOf(adaptor, body string) mockserver.Run {
	code, _ := json.Marshal(body)
	return mockserver.Run{Plan: json.RawMessage(`{"id":"` + runtest.NewID() + `","jobs":[{"id":"a","adaptor":"` + adaptor + `","body":` + string(code) + `}]}`)}
}

// Guards against runs that end because the registry is ill for a minute: it is the worker that was not able to execute
// them, so it claims no more until it is, and they go back where the server takes them. What is wrong with the run is its own.
func TestARunThatWaitsForTheRegistryGoesBack(t *testing.T) {
	tests := []struct {
		name   string
		status int
		unable bool
	}{{"ill", 503, true}, {"wants credentials", 401, true}, {"does not have it", 404, false}}
	for _, engine := range []string{"js", "auto without Node"} {
		for _, tt := range tests {
			t.Run(engine+", the registry "+tt.name, func(t *testing.T) {
				registry := serve(t)
				registry.Fail(tt.status)
				t.Setenv("npm_config_fetch_retries", "0")
				p := openIn(t, t.TempDir())
				embedded := js.New(js.Config{Packages: p})
				var chosen runner.Engine = embedded
				if engine != "js" {
					t.Setenv("PATH", t.TempDir())
					node, err := openfn.New(openfn.Config{RepoDir: p.cfg.Repo.Dir(), Optional: true})
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, node.Close()) })
					chosen = runner.Either(embedded, node)
				}
				w := runtest.New(t, chosen)
				require.NoError(t, embedded.Check(t.Context()))
				record, outcome := w.Outcome(t.Context(), runner.Limits{}, runOf(languageX, "fn(s => s)"))
				require.Equal(t, []any{"exception", tt.unable}, []any{record.Reason, outcome.Unable}, record.ErrorMessage)
				require.Contains(t, record.ErrorMessage, "Error installing @openfn/language-x@1.0.0")
				require.NotContains(t, events(record), "run:start")
				checker, ok := chosen.(runner.Checker)
				require.True(t, ok)
				if err := checker.Check(t.Context()); tt.unable {
					require.ErrorContains(t, err, "Error installing @openfn/language-x@1.0.0", "while it is so, nothing is claimed")
				}
				registry.Fail(0)
				require.NoError(t, checker.Check(t.Context()))
				record, _ = w.Outcome(t.Context(), runner.Limits{}, runOf(languageX, "fn(s => ({ data: 1 }))"))
				require.Equal(t, "success", record.Reason, record.ErrorMessage)
			})
		}
	}
}

// Guards against a run that waits for the registry when it has begun, since another worker has removed from the folder
// what it needs, and against one that does so because a worker with the same folder has been at work between two runs.
func TestWhatARunNeedsIsHeldBeforeItStarts(t *testing.T) {
	registry := serve(t)
	registry.Publish(t, "late", "1.0.0", "", "package/index.js", `exports.late = 7;`)
	registry.Publish(t, "@openfn/language-late", "1.0.0", `{"dependencies":{"late":"1.0.0"}}`, "package/index.js", common+`exports.late = () => s => ({ data: require('late').late });`)
	dir := t.TempDir()
	prepared := openIn(t, dir)
	_, err := prepared.Package(t.Context(), "@openfn/language-late@1.0.0", nil)
	require.NoError(t, err)
	fresh := openIn(t, dir) // has read nothing yet
	_, err = fresh.Package(t.Context(), "@openfn/language-late@1.0.0", nil)
	require.NoError(t, err)
	chunks, err := filepath.Glob(filepath.Join(dir, ".embedded", "chunks", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, chunks)
	for _, file := range chunks {
		require.NoError(t, os.Remove(file))
	}
	registry.Fail(500)
	t.Setenv("npm_config_cache", t.TempDir())
	t.Setenv("npm_config_fetch_retries", "0")
	for _, p := range []*Provider{prepared, fresh} {
		record := execute(t, p, "@openfn/language-late@1.0.0", "late()")
		require.Equal(t, "success", record.Reason, record.ErrorMessage)
		require.JSONEq(t, `{"data":7}`, string(record.FinalState))
	}
	record := execute(t, openIn(t, dir), "@openfn/language-late@1.0.0", "late()")
	require.Equal(t, "AutoinstallError", record.ErrorType, "who comes later has nothing, and does not begin")
	require.NotContains(t, events(record), "run:start")
}

// Guards against a worker that dies of a thousand workflows with an adaptor each: what was used before is let go, and had again.
func TestTheMemoryOfAdaptorsIsBounded(t *testing.T) {
	registry := serve(t)
	const n = 6
	for i := range n {
		registry.Publish(t, fmt.Sprintf("@openfn/language-%d", i), "1.0.0", "", "package/index.js", common+`exports.text = '`+strings.Repeat("x", 8<<10)+`';`)
	}
	p := openIn(t, t.TempDir())
	p.known.most = 3 * (20 << 10)
	held, err := p.Package(t.Context(), "@openfn/language-0@1.0.0", nil)
	require.NoError(t, err)
	for i := range 2 * n {
		_, err := p.Package(t.Context(), fmt.Sprintf("@openfn/language-%d@1.0.0", i%n), nil)
		require.NoError(t, err)
		require.LessOrEqual(t, p.known.bytes, p.known.most)
		require.Less(t, len(p.known.m), n-1)
	}
	require.Equal(t, 1, registry.Count("/@openfn/language-0"), "it is in the folder")
	_, err = held.Chunks.Bytecode(held.Entry)
	require.NoError(t, err, "a run keeps its own")
}

// Guards against a plan with twenty new adaptors that has all of them prepared at once.
func TestFewAdaptorsArePreparedAtOnce(t *testing.T) {
	registry := serve(t)
	const n = 6
	for i := range n {
		registry.Publish(t, fmt.Sprintf("@openfn/language-%d", i), "1.0.0", "", "package/index.js", common)
	}
	var now, most atomic.Int64
	registry.Instead(func(http.ResponseWriter, *http.Request) bool {
		at := now.Add(1)
		defer now.Add(-1)
		for seen := most.Load(); at > seen && !most.CompareAndSwap(seen, at); seen = most.Load() {
		}
		time.Sleep(20 * time.Millisecond)
		return false
	})
	p := openIn(t, t.TempDir())
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			_, err := p.Package(t.Context(), fmt.Sprintf("@openfn/language-%d@1.0.0", i), nil)
			require.NoError(t, err)
		})
	}
	all.Wait()
	require.LessOrEqual(t, most.Load(), int64(atATime))
}

// Guards against a verdict for good that tells of one bad minute: archives that could not be read, and a processor that
// others had.
func TestAVerdictIsOfThePackage(t *testing.T) {
	t.Run("an archive is lost", func(t *testing.T) {
		registry := serve(t)
		registry.Publish(t, "helper", "1.0.0", "", "package/index.js", `exports.one = 1;`)
		registry.Publish(t, "@openfn/language-y", "1.0.0", `{"dependencies":{"helper":"1.0.0"}}`, "package/index.js", common+`exports.one = require('helper').one;`)
		t.Setenv("npm_config_fetch_retries", "0")
		dir, cache := t.TempDir(), os.Getenv("npm_config_cache")
		p := openIn(t, dir)
		took := false
		ctx := t.Context()
		_, err := p.Package(ctx, "@openfn/language-y@1.0.0", func(line string) { took = took || strings.HasPrefix(line, "Installing") })
		require.NoError(t, err)
		require.True(t, took)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, ".embedded")))

		tree, err := p.open(ctx, "@openfn/language-y", "1.0.0")
		require.NoError(t, err)
		defer tree.close()
		require.NoError(t, os.RemoveAll(filepath.Join(cache, "phxworker")))
		registry.Fail(503)
		_, err = p.look(ctx, record{Name: "@openfn/language-y", Version: "1.0.0"}, tree, p.cache.Store("other", p.nodes))
		require.NoError(t, err)
		require.Error(t, tree.files.failed(), "what came of it counts for nothing")
	})
	t.Run("the machine is busy", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("needs Linux, which tells the time that a thread had of the processor")
		}
		registry := serve(t)
		registry.Publish(t, "@openfn/language-busy", "1.0.0", "", "package/index.js", common+`let n = 0; while (n < 2e5) n++;`)
		stop := make(chan struct{})
		var busy sync.WaitGroup
		for range 16 * runtime.GOMAXPROCS(0) {
			busy.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
				}
			})
		}
		one, err := openIn(t, t.TempDir()).Package(t.Context(), "@openfn/language-busy@1.0.0", nil)
		close(stop)
		busy.Wait()
		require.NoError(t, err)
		require.Empty(t, one.Node)
	})
}

// A person who looks at the log of a run sees what it waits for, in the words of the engine openfn.
func TestTheLogTellsOfInstalling(t *testing.T) {
	registry := serve(t)
	gate := make(chan struct{})
	registry.Instead(func(http.ResponseWriter, *http.Request) bool { <-gate; return false })
	p := openIn(t, t.TempDir())
	w := runtest.New(t, js.New(js.Config{Packages: p}))
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan struct{})
	go func() { // somebody else has asked before
		defer close(first)
		_, _ = p.Package(ctx, languageX, func(string) { leave() })
	}()
	<-first
	time.AfterFunc(20*time.Millisecond, func() { close(gate) })
	record := w.Run(t.Context(), runner.Limits{}, runOf(languageX, "fn(s => s)"))
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	lines := runtest.Lines(t, record, "RTE")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "Installing "+languageX) })
	require.GreaterOrEqual(t, at, 0, lines)
	require.Regexp(t, `Installed @openfn/language-x@1\.0\.0 in \d`, strings.Join(lines[at:], "\n"))
	record = w.Run(t.Context(), runner.Limits{}, runOf(languageX, "fn(s => s)"))
	require.NotContains(t, strings.Join(runtest.Lines(t, record, "RTE"), "\n"), "Install", "it is there")
}
