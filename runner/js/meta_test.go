package js

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
)

// The engine openfn has the first of it as well.
func TestJobsSeeWhereTheirRunComesFrom(t *testing.T) {
	w := runtest.New(t, New(Config{}))
	w.RequireMeta()
	for name, tt := range map[string]struct{ body, globals, want string }{
		"is not replaced":             {"fn(() => { try { globalThis.meta = 1; } catch {} return { data: typeof meta }; })", "", "object"},
		"is there for globals":        {"fn(() => ({ data: id + typeof meta }))", "export const id = typeof meta.runId;", "stringobject"},
		"gives way to a plan's own":   {"fn(() => ({ data: meta }))", "export const meta = 'mine';", "mine"},
		"gives way to a job's own":    {"const meta = 'mine'; fn(() => ({ data: meta }))", "", "mine"},
		"is not replaced for globals": {"fn(() => { try { globalThis.meta = 1; } catch {} return { data: typeof meta }; })", "export const x = 1;", "object"},
	} {
		t.Run(name, func(t *testing.T) {
			globals, err := json.Marshal(tt.globals)
			require.NoError(t, err)
			w.T = t
			record := w.Job(tt.body, `"globals":`+string(globals))
			require.JSONEq(t, `{"data":"`+tt.want+`"}`, string(record.FinalState), record.ErrorMessage)
		})
	}
}
