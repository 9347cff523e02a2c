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
		"lines in batches, which come whole again":        {broken("lines in batches"), []string{"W4.5", "W4.6", "W4.20", "W4.21"}},
		"a short token for each connection":               {broken("a token for a minute, and another for each connection"), []string{"W1.3"}},
		"one ref for all pushes, which W1.5 is about":     {broken("one ref for all"), []string{"W3.1", "W2.14"}},
		"SIGTERM goes unheeded, and no secret is written": {broken("deaf"), []string{"W1.10"}},
		"its last frames arrive behind its end":           {lateGoodbye, []string{"W5.8"}},
	} {
		t.Run(name, func(t *testing.T) {
			report := try(t, test.worker, suite.Options{Cases: test.cases})
			for _, r := range report.Results {
				require.Equal(t, suite.Passed, r.Verdict, report.Text(r))
			}
		})
	}
}

// Who ends a run before the next can start may take one at a time, or many.
func TestWhatIsOverAtOnceTellsNothingOfHowManyRunAtOnce(t *testing.T) {
	report := try(t, broken("one run at a time, of jobs that take no time"), suite.Options{Cases: []string{"W2.15"}})
	r := report.Results[0]
	require.Equal(t, suite.NotTried, r.Verdict, report.Text(r))
	require.Contains(t, r.Reason, "ended the first run before the second had begun")
}

// A failure tells what the server did not like: a worker's own log may say nothing of it.
func TestAFailureNamesWhatWasRefused(t *testing.T) {
	for name, test := range map[string]struct {
		worker func(context.Context, Environment) error
		id     string
		want   []string
	}{
		"the path":       {broken("another path"), "W2.2", []string{"404", "/worker/websocket"}},
		"the serializer": {broken("another vsn"), "W2.2", []string{"403", "vsn=2.0.0"}},
		"the secret": {func(ctx context.Context, e Environment) error {
			e.Secret = "another"
			return broken("")(ctx, e)
		}, "W2.2", []string{"401", "signature is invalid"}},
		"the claims of the token": {broken("a token without worker_id"), "W2.2", []string{"401", "worker_id"}},
		"a push":                  {broken("a reason that is none"), "W3.9", []string{`run:complete {`, `"reason":"ok"`, `was refused with`, `is invalid`}},
		"a crash":                 {broken("no demand"), "W2.2", []string{"phx_error", "claim {"}},
	} {
		t.Run(name, func(t *testing.T) {
			report := try(t, test.worker, suite.Options{Cases: []string{test.id}})
			r := report.Results[0]
			require.Equal(t, suite.Failed, r.Verdict)
			for _, want := range test.want {
				require.Contains(t, r.Failures[0].Came, want)
			}
			require.NotContains(t, r.Failures[0].Came, "eyJ", "a token")
		})
	}
}

// W1.10 is red for what was written, also where the worker does not end.
func TestASecretIsFoundInWhatADeafWorkerWrites(t *testing.T) {
	report := try(t, broken("logs its secret, and is deaf"), suite.Options{Cases: []string{"W1.10"}})
	r := report.Results[0]
	require.Equal(t, suite.Failed, r.Verdict)
	require.Equal(t, "WORKER_SECRET is in it", r.Failures[0].Came)
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
