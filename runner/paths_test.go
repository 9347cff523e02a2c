package runner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// Guards against a run that goes on for all its time, and is kept step by step, since its paths are without number.
func TestARunThatComesToTooManySteps(t *testing.T) {
	if testing.Short() {
		t.Skip("ten thousand steps, one after the other")
	}
	began := 0
	engine := runner.Func(func(ctx context.Context, run *runner.Run) (any, error) {
		for ; ctx.Err() == nil; began++ {
			run.StartStep("a", nil).Complete(runner.StepResult{})
		}
		return nil, context.Cause(ctx)
	})
	record := runtest.New(t, engine).Job("fn()")
	require.Equal(t, []string{"kill", "StepLimitError"}, []string{record.Reason, record.ErrorType}, record.ErrorMessage)
	require.Equal(t, "The run came to more than 10000 steps: a job is executed once for each path that leads to it, and there are too many", record.ErrorMessage)
	started, completed := 0, 0
	for _, e := range record.Events {
		switch e.Event {
		case "step:start":
			started++
		case "step:complete":
			completed++
		}
	}
	require.Equal(t, []int{runner.MaxSteps, runner.MaxSteps}, []int{started, completed})
	require.Equal(t, runner.MaxSteps+1, began)
}
