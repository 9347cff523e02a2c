package phxworker

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/runner"
)

// FuzzHostileServer lets a server that gives a run answer one event, or push one, with whatever it
// likes. The worker claims, executes and stops as ever; a run is executed or ends with a reason;
// and what it says of it is short.
func FuzzHostileServer(f *testing.F) {
	events := []string{
		"phx_join", "claim", "fetch:plan", "fetch:dataclip", "fetch:credential", "run:start", "run:log", "step:start", "step:complete", "run:complete", "phx_leave",
		"run:cancel", "run:notify", "worker:drain", "work-available", "phx_error", "phx_close",
	}
	agreed := `{"status":"ok","response":{"extensions":{"lease":{"v":1},"notify":{"v":1},"cancel":{"v":1},"drain":{"v":1},"status":{"v":1,"interval_ms":1}}}}`
	refused := `{"status":"error","response":{"reason":"lease_lost","errors":{"id":["has already been taken"]}}}`
	for n, event := range events {
		if testing.Short() {
			break // the same without what is made of each event
		}
		f.Add(uint8(n), []byte(`{`)) // of a fuzzer, each one is worth a start
		if strings.HasPrefix(event, "fetch:") || n < 2 || n == 5 {
			f.Add(uint8(n), []byte(refused))
		}
	}
	f.Add(uint8(0), []byte(agreed))
	f.Add(uint8(1), []byte(`{"status":"ok","response":{"runs":[{"id":"r1","token":"x.y.z"},{"id":"r1"},{"id":"../r2","token":""}]}}`))
	f.Add(uint8(2), []byte(`{"status":"ok","response":{"id":"r1","jobs":[{"id":"a","credential":"%s"}],"dataclip_id":"%d"}}`))
	f.Add(uint8(3), []byte(`{"status":"ok","response":[256]}`))
	f.Add(uint8(4), []byte(`7`))
	f.Add(uint8(11), []byte(`{"message":7}`))
	f.Fuzz(func(t *testing.T, n uint8, answer []byte) {
		event := events[int(n)%len(events)]
		synctest.Test(t, func(t *testing.T) {
			mock := &lightningMock{
				runs: `{"id":"r1","token":"x.y.z"}`, plan: `{"id":"r1","jobs":[{"id":"a","credential":"c"}],"dataclip_id":"d"}`, dataclip: `{}`,
				answers: map[string]string{event: string(answer)}, events: make(chan string, 100_000),
			}
			if int(n)%len(events) > 10 {
				mock.pushed = `,"` + event + `",` + string(answer) + `]`
			}
			listener := wstest.Serve(t, mock)
			worker, err := New(all(Config{
				URL: "ws://lightning.test/worker", Secret: "s", Transport: Transport{NetDial: listener.DialContext, ReadLimit: 100_000}, Grace: time.Second,
				Engine: Func(func(ctx context.Context, run *Run) (any, error) {
					run.Print("hello")
					for _, job := range run.Plan.Jobs {
						run.StartStep(job.ID, nil).Complete(runner.StepResult{State: json.RawMessage(`{}`), Leaf: true})
					}
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
					}
					return nil, nil
				}),
			}))
			require.NoError(t, err)
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
			defer stop()
			if err = worker.Run(ctx); err != nil {
				require.ErrorIs(t, err, ErrAborted)
			}
			for _, result := range worker.Stats().Results {
				require.Less(t, len(result.Message), 4000)
			}
			require.Zero(t, worker.Stats().Delivery.Panics)
		})
	})
}
