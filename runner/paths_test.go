package runner_test

import (
	"context"
	"fmt"
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
	began := 0 // the engine comes to more than the graph tells
	engine := runner.Func(func(ctx context.Context, run *runner.Run) (any, error) {
		for ; ctx.Err() == nil; began++ {
			run.StartStep("a", nil).Complete(runner.StepResult{})
		}
		return nil, context.Cause(ctx)
	})
	record := runtest.New(t, engine).Job("fn()")
	require.Equal(t, []string{"kill", "StepLimitError"}, []string{record.Reason, record.ErrorType}, record.ErrorMessage)
	require.Equal(t, "The run came to more than 10000 steps: a job is executed once for each path that leads to it", record.ErrorMessage)
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

// Guards against a run that takes all its time for what is known beforehand, and against blame
// of paths for what is a line.
func TestAPlanOfTooManyStepsIsRefused(t *testing.T) {
	line := func(n int, condition string) *runner.Plan {
		plan := &runner.Plan{}
		for i := range n {
			plan.Jobs = append(plan.Jobs, runner.Job{ID: fmt.Sprint(i), Body: "fn(s => s)"})
			plan.Edges = append(plan.Edges, runner.Edge{SourceJobID: fmt.Sprint(i), TargetJobID: fmt.Sprint(i + 1), Condition: condition})
		}
		return plan
	}
	layers := func(n int) *runner.Plan {
		plan := &runner.Plan{}
		for i := range 2 * n {
			plan.Jobs = append(plan.Jobs, runner.Job{ID: fmt.Sprint(i), Body: "fn(s => s)"})
			for to := range 2 {
				plan.Edges = append(plan.Edges, runner.Edge{SourceJobID: fmt.Sprint(i), TargetJobID: fmt.Sprint(i/2*2 + 2 + to)})
			}
		}
		return plan
	}
	elsewhere := line(20_000, "")
	elsewhere.Triggers, elsewhere.StartingNodeID = []runner.Trigger{{ID: "t"}}, "19000"
	began := line(20_000, "always")
	began.Triggers = []runner.Trigger{{ID: "t"}}
	began.Edges = append(began.Edges, runner.Edge{SourceTriggerID: "t", TargetJobID: "5000"})
	const paths = ": a job is executed once for each path that leads to it"
	tests := []struct {
		name string
		plan *runner.Plan
		want string
	}{
		{"a line", line(20_000, ""), "The run would come to 20000 steps if all goes well, over the limit of 10000"},
		{"as long as may be", line(runner.MaxSteps, "always"), ""},
		{"a line of successes", line(runner.MaxSteps+1, "on_job_success"), "The run would come to 10001 steps if all goes well, over the limit of 10000"},
		{"a line of failures", line(20_000, "on_job_failure"), ""},
		{"a line of conditions", line(20_000, "state.data"), ""},
		{"a line that is begun near its end", elsewhere, ""},
		{"a line behind a trigger", began, "The run would come to 15000 steps if all goes well, over the limit of 10000"},
		{"few layers", layers(12), ""},
		{"layers", layers(40), "The run would come to 1099511627775 steps if all goes well, over the limit of 10000" + paths},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			failure := tt.plan.CheckPaths()
			if tt.want == "" {
				require.Nil(t, failure)
				return
			}
			require.NotNil(t, failure)
			require.Equal(t, &runner.Failure{Reason: runner.Kill, Type: "StepLimitError", Message: tt.want}, failure)
		})
	}
}
