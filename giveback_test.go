package phxworker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

func TestAReleaseIsKnownByTheEndOfItsTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{StatusTimeout: time.Hour})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.After, Event: "run:release", Count: 1})
		worker, _ := h.hire(Config{Extensions: []string{extRelease}, Groups: slots.MustParse("manual:1"), Engine: Func(func(context.Context, *Run) (any, error) { return nil, ErrRequeue })})
		settle(time.Minute)
		require.Zero(t, worker.Stats().Undelivered, "the server has closed the topic: it has the release")
	})
}

func TestARunIsReportedWhenItsReleaseIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.Before, Event: "run:release", Count: -1})
		worker, stop := h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		worker.Abort()
		require.ErrorIs(t, stop(), ErrAborted)
		require.Equal(t, 1, h.taken("a", "run:complete"), "a failure falls back")
		require.Zero(t, worker.Stats().Undelivered)
	})
}

// The topic of a run is closed with its release, and the reply may come behind that.
func TestAReleaseWhoseReplyComesBehindTheClose(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
	}{
		{"accept", Config{Hooks: Hooks{Accept: func(_ context.Context, run *Run) error {
			if run.ID == "b" {
				return ErrRequeue
			}
			return nil
		}}}},
		{"prefetch", Config{Claim: Claim{Prefetch: true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				tt.cfg.Groups, tt.cfg.Extensions = slots.MustParse("manual:1"), []string{"release"}
				if !tt.cfg.Claim.Prefetch {
					tt.cfg.Groups = slots.MustParse("manual:2")
				}
				worker, _ := h.hire(tt.cfg)
				settle(time.Second)
				h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "run:release", Delay: 100 * time.Millisecond, Count: 1})
				h.enqueue("manual", "b")
				settle(20 * time.Second)
				stats := worker.Stats()
				require.Zero(t, stats.Undelivered, "%v %+v", stats.Delivery.Settled, stats.Results)
				require.Positive(t, stats.Delivery.Settled[runner.Returned])
			})
		})
	}
}

// Guards against runs that are lost because each waits for the release of the one
// before.
func TestUnansweredReleasesLoseNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		var ids []string
		for i := range 20 {
			ids = append(ids, fmt.Sprint("r", i))
		}
		h.enqueue("manual", ids...)
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "claim", Delay: 5 * time.Second, Count: 1})
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.Before, Event: "run:release", Count: -1})
		_, stop := h.hire(Config{
			Groups: slots.MustParse("manual:20"), Claim: Claim{DemandAll: true}, Extensions: []string{"release"}, Grace: time.Minute,
			Engine: Func(func(context.Context, *Run) (any, error) { return nil, nil }),
		})
		settle(time.Second)
		_ = stop()
		for _, id := range ids {
			require.Contains(t, []string{"success", "available"}, h.state(id), "%s was neither executed nor returned", id)
		}
	})
}
