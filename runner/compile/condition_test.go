package compile_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/compile"
	"github.com/phxworker/phxworker/runner/js/vm"
)

func TestConditionRuns(t *testing.T) {
	tests := []struct {
		name       string
		expression string
		want       any
	}{
		{"property of the state", "state.data.n === 7 && !state.errors", true},
		{"upstream step", "upstreamStepId === 'a'", true},
		{"truthy value", "state.data.list.map(x => x * 2).includes(2) ? 'yes' : ''", "yes"},
		{"sequence", "(1, 2)", 2},
		{"semicolon", "state.data.n;", 7},
		{"comment at the end", "true // always", true},
		{"line breaks around", "\n\n  state.data\n  .n\n", 7},
		{"braces in it", "(function () { return 'x}' })()", "x}"},
		{"nothing of the job", "typeof fn", "undefined"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			function, err := compile.Condition(tt.expression)
			require.NoError(t, err)
			engine, err := vm.New()
			require.NoError(t, err)
			defer engine.Close()
			got, err := engine.Eval(function + "({ data: { n: 7, list: [1] } }, 'a')")
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestConditionErrors(t *testing.T) {
	tests := []struct{ name, expression, want string }{
		{"recorded", "state.data ===", "Unexpected end of input (1:14)"},
		{"unexpected token", "state.a ==== 1", "Unexpected token = (1:11)"},
		{"on another line", "\n  state\n  ? 1", "Unexpected end of input (3:5)"},
		{"a statement", "if (x) y", "Unexpected token if (1:0)"},
		{"a bracket not closed", "f(", "Unexpected end of input (1:2)"},
		{"a string not closed", "'abc", "Unexpected token ILLEGAL (1:0)"},
		{"nothing", " ", "Unexpected end of input (1:1)"},
		{"closes the function around it", "1 }, function () {", "Unexpected token } (1:0)"},
		{"closes it and opens another", "1 }); (function () { 2", "Unexpected token } (1:0)"},
		{"nested too deeply", strings.Repeat("(", 60_000), "Nested too deeply (1:50000)"},
		{"a module's import", "import.meta", "import not supported in script (1:0)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := compile.Condition(tt.expression)
			require.EqualError(t, err, tt.want)
		})
	}
}
