package js

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
)

// Guards against details of an error whose members are in another order than OpenFn's, or are others.
func TestDetailsOfErrors(t *testing.T) {
	tests := []struct{ name, mistake, want string }{
		{"members", `throw Object.assign(new Error('bad'), { zeta: 1, alpha: [2] });`, `{"message":"bad","zeta":1,"alpha":[2]}`},
		{"a message among them", `throw Object.defineProperty(Object.assign(new Error('bad'), { code: 1 }), 'message', { enumerable: true });`, `{"message":"bad","code":1}`},
		{"toJSON", `throw Object.assign(new Error('bad'), { code: 1, toJSON: () => ({ told: true }) });`, `{"message":"bad","told":true}`},
		{"words of V8's", `try { const c = 1; c = 2; } catch (e) { throw Object.assign(e, { zeta: 1, alpha: 2 }); }`, `{"message":"Assignment to constant variable.","zeta":1,"alpha":2}`},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.T = t
			record := w.Job(`function helper() { ` + tt.mistake + ` } fn(() => helper())`)
			require.Contains(t, string(record.FinalState), `"details":`+tt.want, record.ErrorMessage)
		})
	}
}
