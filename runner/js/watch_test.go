package js

import (
	"testing"

	"github.com/stretchr/testify/require"
	"modernc.org/quickjs"
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
