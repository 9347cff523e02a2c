package phxworker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// A run whose end was only being reported when the grace was over has not been
// stopped.
func TestARunThatHadEndedIsNotCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "run:complete", Delay: 40 * time.Second})
		_, stop := h.hire(Config{Groups: slots.MustParse("manual:1"), Grace: 30 * time.Second})
		settle(time.Second)
		h.gate.release("a")
		settle(0)
		require.NoError(t, stop())
		require.Equal(t, "success", h.state("a"))
	})
}

func TestARunThatWasCancelledBeforeIsNotCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "run:complete", Delay: 5 * time.Second})
		worker, stop := h.hire(Config{Groups: slots.MustParse("manual:1")})
		settle(time.Second)
		require.NoError(t, worker.Cancel("a"))
		settle(time.Second) // its end is being reported
		worker.Abort()
		require.NoError(t, stop(), "no run was cut short")
	})
}

func TestARunThatWentBackBeforeIsNotCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "run:release", Delay: 3 * time.Second})
		worker, stop := h.hire(Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Engine: Func(func(ctx context.Context, run *Run) (any, error) { return nil, ErrRequeue })})
		settle(time.Second)
		require.Len(t, h.sent("run:release"), 1)
		worker.Abort()
		require.NoError(t, stop(), "no run was cut short")
	})
}
