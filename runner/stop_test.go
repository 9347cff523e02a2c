package runner

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// Guards against a run that goes on for ever, and takes all of a processor for
// it, when it is stopped while the server owes it an answer on a live join.
func TestAStopEndsARunThatTheServerDoesNotAnswer(t *testing.T) {
	for _, event := range []string{"fetch:plan", "fetch:dataclip", "fetch:credential", "run:start", "run:log", "step:complete", "run:complete"} {
		t.Run(event, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(mockserver.Run{
					Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
					Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"k":"v"}`)},
					Dataclip:    json.RawMessage(`{"data":1}`),
				})
				w.fail(fault.Rule{Event: event, Action: fault.Withhold, When: fault.Before, Count: -1})
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan Outcome, 1)
				go func() { done <- New(Config{Engine: Func(twoSteps)}).Run(ctx, w.socket, id, token) }()
				time.Sleep(time.Minute)
				synctest.Wait()
				begin := time.Now()
				stop()
				<-done
				require.LessOrEqual(t, time.Since(begin), 15*time.Second, "what is left to be reported has its grace, and no more")
			})
		})
	}
}
