package phxworker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/fault"
)

// A run whose end was only being reported when the grace was over has not been
// stopped.
func TestARunThatHadEndedIsNotCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "run:complete", Delay: 40 * time.Second})
		_, stop := h.hire(Config{Groups: "manual:1", Grace: 30 * time.Second})
		settle(time.Second)
		h.gate.release("a")
		settle(0)
		require.NoError(t, stop())
		require.Equal(t, "success", h.state("a"))
	})
}
