package runner

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
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
				work, stop := context.WithCancel(t.Context())
				report, silence := context.WithCancel(t.Context())
				done := make(chan Outcome, 1)
				go func() {
					done <- New(Config{Engine: Func(twoSteps)}).Run(work, report, w.socket, claim.Run{ID: id, Token: token}, nil)
				}()
				time.Sleep(time.Minute)
				stop()
				time.Sleep(15 * time.Second)
				silence()
				begin := time.Now()
				<-done
				require.Zero(t, time.Since(begin))
			})
		})
	}
}

// Guards against the refusal of a rejoin being read as the answer to what was
// pushed under the join before.
func TestARefusedRejoinIsNoAnswerToAPush(t *testing.T) {
	for _, event := range []string{"fetch:plan", "fetch:credential", "run:start", "run:complete"} {
		t.Run(event, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(mockserver.Run{
					Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"c"},{"id":"b"}]}`),
					Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"k":"v"}`)},
				})
				w.fail(fault.Rule{Event: event, Action: fault.Drop, When: fault.Before})
				w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`)})
				dir := t.TempDir()
				outcome := New(Config{Engine: Func(twoSteps), Spool: dir}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
				require.ErrorContains(t, outcome.Err, "not_found")
				require.NotContains(t, outcome.Message, "Failed to load")
				spooled, err := readSpool(dir)
				require.NoError(t, err)
				require.Len(t, spooled, 1)
				if event[:4] == "run:" {
					names := make([]string, 0, len(spooled[0].Events))
					for _, e := range spooled[0].Events {
						names = append(names, e.Event)
					}
					require.Contains(t, names, event, "what was not delivered is in the spool")
				} else {
					require.Equal(t, "TopicLost", outcome.Type)
				}
			})
		})
	}
}
