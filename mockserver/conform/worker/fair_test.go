package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

// What a good worker may do in another way than ours is no failure.
func TestOtherWaysAreGoodAsWell(t *testing.T) {
	for name, test := range map[string]struct {
		worker func(context.Context, Environment) error
		cases  []string
	}{
		"lines in batches, which come whole again": {broken("lines in batches"), []string{"W4.5", "W4.6", "W4.20", "W4.21"}},
		"a short token for each connection":        {broken("a token for a minute, and another for each connection"), []string{"W1.3"}},
		"its last frames arrive behind its end":    {lateGoodbye, []string{"W5.8"}},
	} {
		t.Run(name, func(t *testing.T) {
			report := try(t, test.worker, suite.Options{Cases: test.cases})
			for _, r := range report.Results {
				require.Equal(t, suite.Passed, r.Verdict, report.Text(r))
			}
		})
	}
}

// lateGoodbye has gone before the server has read its goodbye.
func lateGoodbye(ctx context.Context, e Environment) error {
	late, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		time.Sleep(underWay / 2)
		stop()
	})
	go func() { _ = broken("")(late, e) }()
	<-ctx.Done()
	return nil
}

// A worker that ends before it has done anything has shown nothing, in no case.
func TestAWorkerThatEndsAtOncePassesNothing(t *testing.T) {
	report := try(t, func(context.Context, Environment) error { return errors.New("no legs") }, suite.Options{Slow: true})
	for _, r := range report.Results {
		require.NotEqual(t, suite.Passed, r.Verdict, "%s %s", r.ID, r.Title)
	}
}
