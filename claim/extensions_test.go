package claim_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

// unwilling takes no run: each goes back to the server at once.
type unwilling struct{ *outside }

func (u unwilling) Start(run claim.Run, slot *slots.Slot) {
	u.outside.Start(run, slot)
	u.mu.Lock()
	delete(u.slots, run.ID)
	u.useLocked(slot.Group().Name, -1)
	u.queued["manual"] = append(u.queued["manual"], run)
	u.mu.Unlock()
	slot.Return()
}

// Guards against a worker that goes round in circles with the server, at the speed
// of the network, over runs that are not for it.
func TestAGroupThatIsGivenTheSameRunsAgainAndAgainRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		o.enqueue("manual", 2)
		loop := claim.NewLoop(claim.Config{Pool: slots.NewPool(slots.Group{Name: "manual", Queues: []string{"manual"}, Slots: 2}), Claimer: o, Starter: unwilling{o}, Logger: logger})
		intake, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = loop.Run(intake, t.Context()) })
		time.Sleep(time.Second)
		require.Len(t, o.asks("manual"), 11, "each run five times, and once too often")
		require.Equal(t, uint64(1), loop.Stats().Claims.Exhausted)
		require.Equal(t, 2, strings.Count(book(), "comes back again and again"), "once for each")
		time.Sleep(8 * time.Second)
		require.Len(t, o.asks("manual"), 11, "that its runs went back is no reason")

		loop.Wake() // there may be others
		time.Sleep(time.Second)
		require.Len(t, o.asks("manual"), 12)
		time.Sleep(9*time.Second + time.Millisecond)
		require.Len(t, o.asks("manual"), 13, "after the longest pause")

		o.mu.Lock()
		o.queued["manual"] = append([]claim.Run{{ID: "new"}}, o.queued["manual"]...)
		o.mu.Unlock()
		loop.Wake()
		time.Sleep(time.Second)
		require.Contains(t, o.runs("manual"), "new")
		require.Len(t, o.asks("manual"), 15, "a new one is a reason to go on")
		end()
		running.Wait()
	})
}

func TestAFinishedRunEndsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.set(func(o *outside) {
			o.answer = func(claim.Request) ([]claim.Run, error) { return []claim.Run{{ID: "again"}}, nil }
		})
		l := runLoop(t, "manual:7", o, claim.Config{})
		time.Sleep(time.Second)
		require.Len(t, o.asks("manual"), 6, "the sixth was once too often; it holds a slot as the others do")
		o.finish("again")
		synctest.Wait()
		require.Len(t, o.asks("manual"), 7)
		require.Equal(t, uint64(2), l.Stats().Claims.Exhausted)
	})
}

func TestWhatWasNotBegunIsGivenBackOnAStop(t *testing.T) {
	for _, taken := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			o := newOutside()
			o.latency = time.Second
			o.returns(3)
			o.enqueue("manual", 3)
			back := make(chan string, 9)
			l := runLoop(t, "manual:2", o, claim.Config{Return: func(_ context.Context, run claim.Run) bool {
				back <- run.ID
				return taken
			}})
			l.endIntake() // the claim is in flight
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Equal(t, []string{"r1", "r2", "r3"}, []string{<-back, <-back, <-back})
			if taken {
				require.Empty(t, o.runs(""))
				require.True(t, l.ended(t))
				return
			}
			require.Equal(t, []string{"r1", "r2"}, o.runs(""), "what the server does not take is executed")
			o.finish("r1")
			require.True(t, l.ended(t))
			require.Equal(t, []string{"r1", "r2", "r3"}, o.runs(""))
		})
	}
}
