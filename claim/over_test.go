package claim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

// returns answers each claim with n runs, whatever was asked for.
func (o *outside) returns(n int) {
	o.set(func(o *outside) {
		o.answer = func(req claim.Request) ([]claim.Run, error) {
			req.Demand = n
			return o.takeLocked(req), nil
		}
	})
}

func TestDemandAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.latency = time.Second
		o.enqueue("manual", 3)
		l := runLoop(t, "manual:5", o, claim.Config{Options: claim.Options{DemandAll: true}})
		require.Equal(t, slots.Counts{Size: 5, Claimed: 5}, l.pool.Counts(), "reserved before it asks")

		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []string{"r1", "r2", "r3"}, o.runs(""))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, slots.Counts{Size: 5, Open: 2, Running: 3}, l.pool.Counts(), "what no run came for is free again")
		requests := o.requests()
		require.Equal(t, 5, requests[0].Demand)
		require.Equal(t, 2, requests[1].Demand, "again at once, for the rest")
	})
}

func TestMoreRunsThanAskedForUseOpenSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 3)
		o.returns(3)
		l := runLoop(t, "manual:4", o, claim.Config{})
		require.Equal(t, []string{"r1", "r2", "r3"}, o.runs(""))
		require.Equal(t, 1, o.requests()[0].Demand)
		require.Equal(t, 3, l.pool.Counts().Running)
		require.Zero(t, l.Stats().Held)
	})
}

func TestMoreRunsThanSlotsAreHeldAndNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		o.enqueue("manual", 5)
		o.returns(5)
		l := runLoop(t, "manual:2", o, claim.Config{Logger: logger})
		require.Equal(t, []string{"r1", "r2"}, o.runs(""))
		require.Equal(t, uint64(3), l.Stats().Held)
		require.Equal(t, 1, count(book(), "level=WARN"), book())
		require.Contains(t, book(), "demand=1 runs=5 waiting=3")

		time.Sleep(time.Minute)
		l.Wake()
		o.finish("r2")
		synctest.Wait()
		require.Equal(t, []string{"r1", "r2", "r3"}, o.runs(""), "in the order of the reply")
		o.finish("r1")
		synctest.Wait()
		o.finish("r3")
		synctest.Wait()
		require.Equal(t, []string{"r1", "r2", "r3", "r4", "r5"}, o.runs(""))
		require.Len(t, o.asks("manual"), 1, "no claim while runs wait")
		require.Equal(t, 2, o.peakOf("manual"))

		o.finish("r4")
		synctest.Wait()
		require.Len(t, o.asks("manual"), 2)
	})
}

func TestHeldRunsAreStartedDuringAShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 3)
		o.returns(3)
		l := runLoop(t, "manual:1", o, claim.Config{})
		l.endIntake()
		require.False(t, l.ended(t))
		o.finish("r1")
		require.False(t, l.ended(t))
		o.finish("r2")
		require.True(t, l.ended(t), "r3 has its slot")
		require.Equal(t, []string{"r1", "r2", "r3"}, o.runs(""))
		require.Len(t, o.asks("manual"), 1)
	})
}

func TestHeldRunsGivenUpAtTheEndOfWorkAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		o.enqueue("manual", 3)
		o.returns(3)
		l := runLoop(t, "manual:1", o, claim.Config{Logger: logger})
		l.endIntake()
		require.False(t, l.ended(t))
		l.endWork()
		require.True(t, l.ended(t))
		require.Equal(t, []string{"r1"}, o.runs(""))
		require.Equal(t, 2, count(book(), "level=ERROR"), book())
		require.Contains(t, book(), "run_id=r2")
		require.Contains(t, book(), "run_id=r3")

		o.set(func(o *outside) { o.answer = nil })
		o.finish("r1")
		l.start(t)
		require.Equal(t, []string{"r1"}, o.runs(""), "given up for good, also when the loop runs again")
	})
}

func TestARunWithoutAnIDIsNotStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		o.queued["manual"] = []claim.Run{{Token: "token"}, {ID: "r1"}}
		l := runLoop(t, "manual:2", o, claim.Config{Logger: logger, Options: claim.Options{DemandAll: true}})
		require.Equal(t, []string{"r1"}, o.runs(""))
		require.Contains(t, book(), "the server gave it no id")
		require.Equal(t, uint64(1), l.Stats().Refused)
	})
}
