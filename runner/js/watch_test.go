package js

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"modernc.org/libc"
	"modernc.org/quickjs"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// A new version of the VM's wrapper may change what the watch relies on.
func TestTheWatch(t *testing.T) {
	tests := []struct {
		name, code string
		rejected   int
		exhausted  bool
	}{
		{name: "nothing", code: `1`},
		{name: "a rejected promise", code: `Promise.reject(1)`, rejected: 1},
		{name: "three of them, one handled", code: `for (let i = 0; i < 3; i++) { const p = Promise.reject(i); if (i === 1) p.catch(() => {}); }`, rejected: 2},
		{name: "handled later", code: `var p = Promise.reject(1); Promise.resolve().then(() => p.catch(() => {}))`},
		{name: "an async function", code: `(async () => { await null; throw 1; })()`, rejected: 1},
		{name: "memory", code: `try { const a = []; for (;;) a.push({}); } catch {}`, exhausted: true},
		{name: "memory at once", code: `try { new Array(1e8).fill(1); } catch {}`, exhausted: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			vm, err := quickjs.NewVM()
			require.NoError(t, err)
			defer func() { require.NoError(t, vm.Close()) }()
			w, err := newWatch(vm)
			require.NoError(t, err)
			defer w.close()
			vm.SetMemoryLimit(4 << 20)
			if _, err := vm.Eval(tt.code, quickjs.EvalGlobal); err != nil {
				require.True(t, tt.exhausted, err)
			}
			_, err = vm.ExecutePendingJobs()
			require.NoError(t, err)
			require.Len(t, w.rejected, tt.rejected)
			require.Equal(t, tt.exhausted, w.exhausted)
			require.NotZero(t, w.peak)
			require.Equal(t, tt.rejected > 0, w.takeRejection("reason"))
		})
	}
}

// Guards against an engine that takes runs which it then loses, in a program that is linked with
// a version of the wrapper that is not known here.
func TestAWrapperThatIsNotKnown(t *testing.T) {
	var tls libc.TLS
	type runtime struct {
		cRuntime uintptr
		tls      *libc.TLS
	}
	unknown := map[string]any{
		"no pointer": quickjs.VM{},
		"no context": &struct{ runtime *runtime }{&runtime{1, &tls}},
		"a context of another type": &struct {
			cContext int
			runtime  *runtime
		}{1, &runtime{1, &tls}},
		"no runtime yet": &struct {
			cContext uintptr
			runtime  *runtime
		}{1, nil},
		"a runtime of another type": &struct{ cContext, runtime uintptr }{1, 1},
		"no threads": &struct {
			cContext uintptr
			runtime  *struct{ cRuntime uintptr }
		}{1, &struct{ cRuntime uintptr }{1}},
	}
	for name, vm := range unknown {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := inside(vm)
			require.ErrorContains(t, err, "replace modernc.org/quickjs => modernc.org/quickjs "+wrapperVersion)
		})
	}

	e := New(Config{})
	e.compile = func() (*prelude, error) {
		_, _, _, err := inside(unknown["no context"])
		return nil, err
	}
	require.ErrorContains(t, e.Check(t.Context()), "the js engine cannot start: it needs modernc.org/quickjs v")
	w := runtest.New(t, e)
	record, outcome := w.Outcome(t.Context(), runner.Limits{}, runtest.OneJob(""))
	require.True(t, outcome.Unable, "the worker holds such a run, or returns it")
	require.True(t, record.StartedAt.IsZero(), "nothing was reported of it before")
}

// The version that people are told to use is the one that is tested.
func TestTheVersionOfTheWrapper(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	require.Contains(t, string(mod), "\t"+wrapper+" "+wrapperVersion+"\n")
}
