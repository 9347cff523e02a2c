package openfn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
)

func TestAPlanThatCannotBeCompiledSaysWhy(t *testing.T) {
	compiler := compile.NewCompiler(0)
	for name, tt := range map[string]struct{ plan, want string }{
		"a job":       {`{"id":"r","jobs":[{"id":"a","name":"First","body":"fn("}]}`, "First: Unexpected token (1:3)"},
		"a later job": {`{"id":"r","jobs":[{"id":"a","body":"fn(s => s)"},{"id":"b","body":"const x = ;"}]}`, "b: Unexpected token (1:10)"},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := runner.ParsePlan([]byte(tt.plan))
			require.NoError(t, err)
			_, _, err = planFor(t.Context(), compiler, &runner.Run{ID: "r", Plan: plan}, nil)
			var failure *runner.Failure
			require.ErrorAs(t, err, &failure)
			require.Equal(t, []string{"CompileError", tt.want}, []string{failure.Type, failure.Message})
		})
	}
}
