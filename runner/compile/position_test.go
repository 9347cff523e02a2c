package compile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/compile"
)

func TestOriginal(t *testing.T) {
	module, err := compile.Compile(compile.Job{
		Body:     "get($.url)\n  .then(s => s);\nfn({ a: $.a }); const x = 1",
		Adaptors: adaptors(),
	})
	require.NoError(t, err)
	const head = len(`import { defer as _defer } from "@openfn/runtime"; import { fn } from "@openfn/language-test"; export * from "@openfn/language-test"; `)

	at := func(line, column int) *compile.Position { return &compile.Position{Line: line, Column: column} }
	tests := []struct {
		name         string
		line, column int
		want         *compile.Position // nil: not in the body
	}{
		{"first import", 1, 1, nil},
		{"end of the imports", 1, head, nil},
		{"text added for an operation", 1, head + 1, at(1, 1)},
		{"text added for a chain", 1, head + len("const _op1 = () => _"), at(1, 1)},
		{"the operation itself", 1, head + len("const _op1 = () => _defer(g"), at(1, 1)},
		{"text added for lazy state", 1, head + len("const _op1 = () => _defer(get(s"), at(1, 5)},
		{"state for $", 1, head + len("const _op1 = () => _defer(get(state => sta"), at(1, 5)},
		{"behind it", 1, head + len("const _op1 = () => _defer(get(state => state."), at(1, 6)},
		{"a line without edits", 2, 9, at(2, 9)},
		{"past the end of a line", 2, 99, at(2, 17)},
		{"between edits", 3, len("const _op2 = () => fn(state => ({ a"), at(3, 6)},
		{"behind all edits", 3, len("const _op2 = () => fn(state => ({ a: state.a })); const x"), at(3, 23)},
		{"the export", 4, 1, nil},
		{"an operation in the export", 4, len(";export default [_op1(), _"), at(3, 1)},
		{"line 0", 0, 1, nil},
		{"column 0", 1, 0, nil},
		{"behind the module", 9, 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := module.Original(tt.line, tt.column, compile.V8)
			require.Equal(t, tt.want != nil, ok, module.Code)
			if tt.want != nil {
				require.Equal(t, *tt.want, got, module.Code)
			}
		})
	}
}

func TestCountingString(t *testing.T) {
	require.Equal(t, "V8", compile.V8.String())
	require.Equal(t, "QuickJS", compile.QuickJS.String())
	require.Equal(t, "Counting(7)", compile.Counting(7).String())
}
