package openfn

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/npmtest"
	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// world is what an engine without the network sees: a registry, and a node in PATH that
// pretends. Files in ills make it ill: "node", what a process says as it dies; "hang", that node does
// not answer.
type world struct {
	*npmtest.Registry

	ills string
}

// fakes makes the world: packages have nothing in them and cannot be bundled, and each run ends well.
func fakes(t *testing.T) world {
	t.Helper()
	w := world{npmtest.Serve(t), t.TempDir()}
	w.Use(t)
	for name, version := range map[string]string{"@openfn/language-common": "3.3.4", "@openfn/language-new": "1.0.0", "@openfn/logger": "1.0.0"} {
		w.Publish(t, name, version, `{"main":"main.js"}`, "package/main.js", "await 1\n")
	}
	w.Publish(t, "@openfn/runtime", "1.9.5", `{"main":"main.js","dependencies":{"@openfn/logger":"1.0.0"}}`, "package/main.js", "await 1\n")
	ills, bin := w.ills, t.TempDir()
	for name, text := range map[string]string{
		"node": `#!/bin/sh
if [ "$1" = --version ]; then echo v22.22.0; exit; fi
if [ -f '` + ills + `/hang' ]; then echo > '` + ills + `/hanging'; exec sleep 1000; fi
case "$*" in
*process.versions.node*) echo '{"version":"22.22.0","flags":["--permission"]}' ;;
*host.cjs*)
	if [ -f '` + ills + `/node' ]; then cat '` + ills + `/node' >&2; exit 1; fi
	for last; do :; done
	[ -s "$last" ] || { echo 'SyntaxError: it is empty' >&2; exit 1; }
	echo '{"type":"ready"}'; read -r run; echo '{"type":"end"}'; cat > /dev/null ;;
*logger*) echo '[{"exports":[]},{"exports":[]}]' >&3 ;;
*) echo '[{"exports":[]}]' >&3 ;;
esac
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755))
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return w
}

// ill has the node be ill, or the registry answer with a status, until the function that is returned is
// called.
func (w world) ill(t *testing.T, how, says string) (heal func()) {
	t.Helper()
	if status, err := strconv.Atoi(says); err == nil {
		w.Fail(status)
		return func() { w.Fail(0) }
	}
	path := filepath.Join(w.ills, how)
	require.NoError(t, os.WriteFile(path, []byte(says), 0o600))
	return func() { require.NoError(t, os.Remove(path)) }
}

func fakeBench(t *testing.T, cfg Config) (*runtest.Bench, *Engine) {
	t.Helper()
	if cfg.RepoDir == "" {
		cfg.RepoDir = t.TempDir()
	}
	e, err := New(cfg)
	require.NoError(t, err)
	b := runtest.New(t, e)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return b, e
}

func planWith(adaptor string) mockserver.Run {
	return mockserver.Run{Plan: json.RawMessage(`{"id":"` + runtest.NewID() + `","jobs":[{"id":"a","adaptor":"` + adaptor + `","body":"fn(s => s)"}]}`)}
}

const common = "@openfn/language-common@3.3.4"

// Guards against a worker that goes on taking runs which it cannot execute: failures of its
// own are told as such, and Check tells when they are over.
func TestFailuresThatAreTheWorkersOwn(t *testing.T) {
	tests := []struct {
		name, how, says string
		unable          bool
		kind, check     string
	}{
		{name: "the registry is ill", how: "registry", says: "503", unable: true, kind: "AutoinstallError", check: `Error installing @openfn/language-new@1\.0\.0: the registry 127\.0\.0\.1:\d+ is ill: 127\.0\.0\.1:\d+ says 503`},
		{name: "the registry wants credentials", how: "registry", says: "401", unable: true, kind: "AutoinstallError", check: `Error installing @openfn/language-new@1\.0\.0: the registry 127\.0\.0\.1:\d+ wants other credentials: .*`},
		{name: "no such package", how: "registry", says: "404", kind: "AutoinstallError"},
		{
			name: "Node does not start", how: "node", says: "Error [ERR_X]: no memory\n    at x\n\nNode.js v22.22.0", unable: true, kind: "EngineError",
			check: `The engine could not be started: it exited before it was ready \(code: 1\): Error \[ERR_X\]: no memory`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := fakes(t)
			b, e := fakeBench(t, Config{})
			require.NoError(t, e.Check(t.Context()), "nothing is installed yet")
			require.Equal(t, "success", b.Run(t.Context(), runner.Limits{}, planWith(common)).Reason)
			require.NoError(t, e.Check(t.Context()))

			heal := w.ill(t, tt.how, tt.says)
			_, outcome := b.Outcome(t.Context(), runner.Limits{}, planWith("@openfn/language-new@1.0.0"))
			require.Equal(t, []any{runner.Exception, tt.kind, tt.unable}, []any{outcome.Reason, outcome.Type, outcome.Unable}, outcome.Message)
			for range 2 {
				if tt.check == "" {
					require.NoError(t, e.Check(t.Context()))
				} else {
					err := e.Check(t.Context())
					require.Error(t, err)
					require.Regexp(t, "^"+tt.check+"$", err.Error())
				}
			}
			heal()
			require.NoError(t, e.Check(t.Context()))
			require.Equal(t, "success", b.Run(t.Context(), runner.Limits{}, planWith("@openfn/language-new@1.0.0")).Reason)
		})
	}
}

// What Check says before there was a run, where there is no Node.
func TestCheckBeforeTheFirstRun(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, e := fakeBench(t, Config{})
	require.ErrorContains(t, e.Check(t.Context()), "PATH: install ")
	b, e := fakeBench(t, Config{Optional: true})
	require.NoError(t, e.Check(t.Context()), "another engine has runs to execute")
	require.Equal(t, "exception", b.Run(t.Context(), runner.Limits{}, planWith(common)).Reason)
	require.NoError(t, e.Check(t.Context()))
}

// A Node without the fences that are required is as good as none. The fake one cannot be fenced in.
func TestCheckWithoutRequiredFences(t *testing.T) {
	fakes(t)
	for _, optional := range []bool{false, true} {
		b, e := fakeBench(t, Config{RequireFences: true, Optional: optional})
		_, outcome := b.Outcome(t.Context(), runner.Limits{}, planWith(common))
		require.Equal(t, []any{runner.Exception, "EngineError", !optional}, []any{outcome.Reason, outcome.Type, outcome.Unable}, outcome.Message)
		require.Equal(t, optional, e.Check(t.Context()) == nil, "another engine has runs to execute")
	}
}

// A folder that was filled beforehand may be read-only: what is not in it is not to be had.
func TestAFolderThatTakesNothingMore(t *testing.T) {
	fakes(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skip("no file system may be mounted here, and this test needs one that is read-only: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	protect := func(flag uintptr) {
		t.Helper()
		require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flag, ""))
	}
	protect(syscall.MS_RDONLY)
	b, e := fakeBench(t, Config{RepoDir: dir})
	require.ErrorContains(t, e.Check(t.Context()), "the folder for adaptors cannot be used: ", "it is empty")
	_, outcome := b.Outcome(t.Context(), runner.Limits{}, planWith(common))
	require.True(t, outcome.Unable)

	protect(0)
	require.NoError(t, e.Check(t.Context()))
	require.Equal(t, "success", b.Run(t.Context(), runner.Limits{}, planWith(common)).Reason)
	protect(syscall.MS_RDONLY)
	_, outcome = b.Outcome(t.Context(), runner.Limits{}, planWith("@openfn/language-new@1.0.0"))
	require.True(t, outcome.Unable, "it was not so when the worker began")
	require.Error(t, e.Check(t.Context()))

	b, e = fakeBench(t, Config{RepoDir: dir})
	require.NoError(t, e.Check(t.Context()), "it was so when the worker began")
	_, outcome = b.Outcome(t.Context(), runner.Limits{}, planWith("@openfn/language-new@1.0.0"))
	require.Equal(t, "AutoinstallError", outcome.Type)
	require.False(t, outcome.Unable)
	require.NoError(t, e.Check(t.Context()))
	require.Equal(t, "success", b.Run(t.Context(), runner.Limits{}, planWith(common)).Reason)
}

// Guards against "exited before it was ready" for ever, after a disk was full as the runtime
// was installed: the run that meets it has it installed again.
func TestARuntimeThatIsDamagedIsInstalledAgain(t *testing.T) {
	for _, name := range []string{"a run meets it", "Check meets it"} {
		t.Run(name, func(t *testing.T) {
			fakes(t)
			b, e := fakeBench(t, Config{})
			require.Equal(t, "success", b.Run(t.Context(), runner.Limits{}, planWith(common)).Reason)
			found, err := filepath.Glob(filepath.Join(e.repo.Dir(), "@openfn", "runtime@*", "bundle-*", "node_modules", "@openfn", "*", "main.js"))
			require.NoError(t, err)
			require.Len(t, found, 2)
			for _, path := range found {
				require.NoError(t, os.Truncate(path, 0))
			}
			if strings.HasPrefix(name, "Check") {
				require.ErrorContains(t, e.host.Load().pool.Start(t.Context()), "SyntaxError: it is empty")
				require.NoError(t, e.Check(t.Context()))
				require.NoError(t, e.host.Load().pool.Start(t.Context()))
			}
			record := b.Run(t.Context(), runner.Limits{}, planWith(common))
			require.Equal(t, "success", record.Reason, record.ErrorMessage)
		})
	}
}

// engineFunc is an engine that only prepares.
type engineFunc func(ctx context.Context, run *runner.Run) (runner.Execution, error)

func (f engineFunc) Prepare(ctx context.Context, run *runner.Run) (runner.Execution, error) {
	return f(ctx, run)
}

// Guards against what is kept for ever of a run that is prepared and never executed, as
// when middleware does not call next.
func TestNothingIsKeptOfARunThatIsNotExecuted(t *testing.T) {
	fakes(t)
	b, e := fakeBench(t, Config{})
	var kept weak.Pointer[runner.Run]
	b.Engine = engineFunc(func(ctx context.Context, run *runner.Run) (runner.Execution, error) {
		kept = weak.Make(run)
		x, err := e.Prepare(ctx, run)
		if err != nil {
			return nil, err
		}
		return runner.Prepared(x.Versions(), func(context.Context) (runner.Result, error) { return runner.Result{}, nil }), nil
	})
	require.Equal(t, "success", b.Run(t.Context(), runner.Limits{}, planWith(common)).Reason)
	require.Eventually(t, func() bool {
		runtime.GC()
		return kept.Value() == nil
	}, 10*time.Second, 10*time.Millisecond)
}

// Guards against a time-out that is told as the death of what was killed for it.
func TestWhatIsKilledForATimeOutIsNoFailureOfItsOwn(t *testing.T) {
	w := fakes(t)
	b, e := fakeBench(t, Config{})
	require.Equal(t, "success", b.Run(t.Context(), runner.Limits{}, planWith(common)).Reason) // which installs
	require.NoError(t, e.Close())
	b, e = fakeBench(t, Config{RepoDir: e.repo.Dir()})
	w.ill(t, "hang", "")
	timeUp := errors.New("the time is up")
	var failed error
	b.Engine = engineFunc(func(ctx context.Context, run *runner.Run) (runner.Execution, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		go func() {
			for !exists(filepath.Join(w.ills, "hanging")) {
				time.Sleep(time.Millisecond)
			}
			cancel(timeUp)
		}()
		_, failed = e.Prepare(ctx, run)
		return nil, failed
	})
	b.Run(t.Context(), runner.Limits{}, planWith(common))
	require.Same(t, timeUp, failed)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
