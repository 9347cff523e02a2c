package phxworker

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// refuseTheQueue makes the server refuse the next rejoins of the queue, which ends
// the topic.
func (h *house) refuseTheQueue(times int) {
	h.t.Helper()
	h.fail(fault.Rule{Event: fault.Join, Topic: queueTopic, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"unauthorized"}`), Count: times})
	h.cut()
}

// Guards against a worker that looks alive and never claims again, because the
// server would not let it back on the queue once.
func TestAQueueThatIsLostIsJoinedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, stop := h.hire(Config{Groups: slots.MustParse("manual:1")})
		settle(time.Second)
		h.refuseTheQueue(2)
		settle(time.Second)
		require.False(t, worker.Stats().Queue.Joined)
		h.enqueue("manual", "a")
		settle(time.Minute)
		require.Equal(t, "started", h.state("a"))
		require.True(t, worker.Stats().Queue.Joined)
		require.Equal(t, 2, worker.Stats().Queue.Joins)
		h.gate.release("a")
		require.NoError(t, stop())
	})
}

func TestAStopDoesNotWaitForTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		_, stop := h.hire(Config{Groups: slots.MustParse("manual:1")})
		settle(time.Second)
		h.refuseTheQueue(-1)
		settle(10 * time.Minute) // the pauses are long by now
		begin := time.Now()
		require.NoError(t, stop())
		require.Zero(t, time.Since(begin))
	})
}
