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

// What keeps the globals of a plan from being loaded is said in V8's words.
func TestGlobalsThatCannotBeLoaded(t *testing.T) {
	w := runtest.New(t, New(Config{}))
	for code, want := range map[string]string{
		`export const x = `:   "SyntaxError: [globals] Unexpected end of input",
		`export const x = };`: "SyntaxError: [globals] Unexpected token '}'",
	} {
		record := w.Job(`fn(s => s)`, `"globals":"`+code+`"`)
		require.Equal(t, []string{"crash", "RuntimeCrash", want}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
	}
}
