package js

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
)

// Jobs have the language, the console and timers, as with OpenFn; what else Node has is not there.
func TestGlobals(t *testing.T) {
	tests := []struct{ name, expression, want string }{
		{name: "there", expression: `[typeof console, typeof setTimeout, typeof setInterval, typeof clearTimeout, typeof clearInterval, typeof state]`, want: `["object","function","function","function","function","object"]`},
		{name: "not there", expression: `[typeof process, typeof require, typeof module, typeof fetch, typeof URL, typeof structuredClone, typeof crypto, typeof atob, typeof TextEncoder, typeof queueMicrotask, typeof setImmediate]`, want: `["undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined"]`},
		{name: "the engine's own", expression: `[typeof std, typeof os, typeof __host, typeof __rejection, typeof __adaptor]`, want: `["undefined","undefined","undefined","undefined","undefined"]`},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Job(`fn(() => ({ is: ` + tt.expression + ` }))`)
			require.Equal(t, "success", record.Reason, record.ErrorMessage)
			require.JSONEq(t, `{"is":`+tt.want+`}`, string(record.FinalState))
		})
	}
}
