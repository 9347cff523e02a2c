package phxworker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// Guards against the join of a 101st topic, which Phoenix refuses: the run would
// be lost.
func TestMoreRunsThanASocketCarries(t *testing.T) {
	tests := []struct {
		name         string
		most         int // topics a socket
		runs         int
		wantedSocket int
	}{
		{name: "Phoenix's own limit", most: 100, runs: 150, wantedSocket: 2},
		{name: "a limit that is learned", most: 5, runs: 12, wantedSocket: 3},
		{name: "just one socket's worth", most: 100, runs: 99, wantedSocket: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := quiet
				cfg.MaxTopics = tt.most
				h := openHouse(t, cfg)
				var ids []string
				for i := range tt.runs {
					ids = append(ids, fmt.Sprint("m", i))
				}
				h.enqueue("manual", ids...)
				_, stop := h.hire(Config{Groups: slots.MustParse(fmt.Sprintf("manual>*:%d", tt.runs))})
				settle(10 * time.Second)
				require.Equal(t, tt.runs, h.server.Stats().Started)
				require.Equal(t, tt.wantedSocket, h.server.Stats().Sockets)
				joins := h.sent("phx_join")
				require.JSONEq(t, fmt.Sprintf(`{"capacity":%d,"queues":{"manual>*":%d}`, tt.runs, tt.runs)+offered(), joins[0].payload)

				h.cut() // they all come back where they were
				settle(time.Minute)
				for _, id := range ids {
					h.gate.release(id)
				}
				settle(10 * time.Second)
				require.Equal(t, int64(tt.runs), h.server.Stats().Ended["success"])
				settle(2 * socketIdle)
				require.Equal(t, 1, h.server.Stats().Sockets, "idle sockets are closed")
				require.NoError(t, stop())
			})
		})
	}
}

// Guards against a limit that is learned from a refusal while others leave: it
// came out as none at all, and claimed runs were given up.
func TestALimitIsLearnedWhileRunsComeAndGo(t *testing.T) {
	for _, most := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprint(most, " topics"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := quiet
				cfg.MaxTopics = most
				h := openHouse(t, cfg)
				runs := 400
				if testing.Short() {
					runs = 100
				}
				var ids []string
				for i := range runs {
					ids = append(ids, fmt.Sprint("m", i))
				}
				h.enqueue("manual", ids...)
				h.hire(Config{Groups: slots.MustParse("manual>*:40"), Engine: Func(func(context.Context, *Run) (any, error) { return nil, nil })}) //nolint:nilnil // a run without a final state
				settle(10 * time.Minute)
				require.EqualValues(t, runs, h.server.Stats().Ended["success"])
			})
		})
	}
}

// Guards against a place that is given back twice: the socket would be taken for
// one with room.
func TestAPlaceIsGivenBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a", "b")
		worker, stop := h.hire(Config{Groups: slots.MustParse("manual:2")})
		settle(time.Second)
		first := worker.current().sockets.carry[0]
		for _, id := range []string{"a", "b"} {
			require.Equal(t, first.topics, first.joined)
			h.gate.release(id)
			settle(time.Second)
		}
		require.Equal(t, []int{1, 1}, []int{first.topics, first.joined}, "the queue's")
		require.NoError(t, stop())
	})
}

func TestAStopClosesEverySocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := quiet
		cfg.MaxTopics = 2
		h := openHouse(t, cfg)
		h.enqueue("manual", "a", "b", "c")
		_, stop := h.hire(Config{Groups: slots.MustParse("manual:3")})
		settle(10 * time.Second)
		require.Equal(t, 2, h.server.Stats().Sockets)
		for _, id := range []string{"a", "b", "c"} {
			h.gate.release(id)
		}
		require.NoError(t, stop())
		settle(0)
		require.Zero(t, h.server.Stats().Sockets)
	})
}

// Guards against a run that is lost over a proxy which says 403 while the server restarts:
// channel.Socket.Join ends then, unless it is told to wait.
func TestARunWaitsWhileTheServerRefusesItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := quiet
		cfg.Faults = []fault.Rule{
			{Event: "join", Topic: "run:*", Action: fault.Drop, When: fault.Before},
			{Event: fault.Connect, Skip: 1, Count: 3, Action: fault.Refuse, Code: 403},
		}
		h := openHouse(t, cfg)
		h.enqueue("manual", "m0")
		h.hire(Config{Groups: slots.MustParse("manual>*:1"), Engine: Func(func(context.Context, *Run) (any, error) { return nil, nil })}) //nolint:nilnil // a run without a final state
		settle(time.Minute)
		require.EqualValues(t, 1, h.server.Stats().Ended["success"])
		require.Len(t, h.server.Faults(), 4)
	})
}
