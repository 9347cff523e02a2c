package claim_test

import (
	"math/rand/v2"
	"slices"
	"sync"
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

// fetcher records what is prefetched, and starts it in outside.
type fetcher struct {
	*outside

	cannot   bool // nothing can be returned
	stubborn bool // nothing is, though it is asked for

	mu   sync.Mutex
	ids  []string
	back []time.Duration
}

func (f *fetcher) fetched() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.ids)
}

// released returns when runs were returned.
func (f *fetcher) released() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.back)
}

func (f *fetcher) CanPrefetch() bool { return !f.cannot }

func (f *fetcher) Prefetch(run claim.Run) claim.Ahead {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = append(f.ids, run.ID)
	e := &early{f, run, make(chan struct{})}
	return claim.Ahead{Start: e.Start, Return: e.Return, Over: e.over}
}

// early is a run ahead that can be returned at once, unless its fetcher is stubborn.
type early struct {
	*fetcher

	run  claim.Run
	over chan struct{}
}

func (f *early) Start(slot *slots.Slot) { f.outside.Start(f.run, slot) }

func (f *early) Return() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.back = append(f.back, time.Since(f.began))
	if !f.stubborn {
		close(f.over)
	}
}

func TestOneRunIsClaimedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 4)
		f := &fetcher{outside: o}
		l := runLoop(t, "manual:1", o, claim.Config{Starter: f, Options: claim.Options{Prefetch: true}})
		require.Equal(t, []string{"r1"}, o.runs(""))
		require.Equal(t, []string{"r2"}, f.fetched())
		require.Len(t, o.asks("manual"), 2, "one ahead, no more")
		require.Equal(t, slots.Counts{Size: 1, Running: 1}, l.pool.Counts())

		time.Sleep(5 * time.Second)
		o.finish("r1")
		synctest.Wait()
		require.Equal(t, []string{"r1", "r2"}, o.runs(""))
		require.Equal(t, []string{"r2", "r3"}, f.fetched())
		require.Equal(t, 1, o.peakOf("manual")-1, "never more than the slot and the claim")
		require.Empty(t, f.released())
		require.Equal(t, slots.Counts{Size: 1, Running: 1}, l.pool.Counts())

		o.finish("r2")
		synctest.Wait()
		require.Equal(t, []string{"r1", "r2", "r3"}, o.runs(""), "the slot of one that was ahead is freed as any other")
		require.Equal(t, []string{"r2", "r3", "r4"}, f.fetched())

		l.endIntake()
		require.True(t, l.ended(t))
		require.Len(t, f.released(), 1, "what was not begun goes back")
	})
}

func TestWhatWaitsTooLongAheadIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 9)
		f := &fetcher{outside: o}
		l := runLoop(t, "manual:1", o, claim.Config{Starter: f, Options: claim.Options{Prefetch: true}})
		time.Sleep(time.Hour)
		require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}, f.released(), "three times in vain, then no more")
		require.Equal(t, uint64(3), l.Stats().PrefetchReturned)
		o.finish("r1")
		synctest.Wait()
		require.Len(t, f.fetched(), 4, "a run has finished: there is hope again")
	})
}

func TestNothingIsClaimedAheadThatCouldNotBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 4)
		runLoop(t, "manual:1", o, claim.Config{Starter: &fetcher{outside: o, cannot: true}, Options: claim.Options{Prefetch: true}})
		time.Sleep(time.Hour)
		require.Len(t, o.asks("manual"), 1)
	})
}

// A run that does not go back has been begun: it must have the next slot.
func TestARunAheadThatIsNotGivenBackKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 9)
		f := &fetcher{outside: o, stubborn: true}
		l := runLoop(t, "manual:1", o, claim.Config{Starter: f, Options: claim.Options{Prefetch: true}})
		time.Sleep(25 * time.Second)
		require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second}, f.released(), "it is asked for again")
		require.Equal(t, []string{"r2"}, f.fetched(), "and no other is claimed meanwhile")
		require.Zero(t, l.Stats().PrefetchReturned)
		l.endIntake()
		o.finish("r1")
		require.True(t, l.ended(t))
		require.Equal(t, []string{"r1", "r2"}, o.runs(""), "also when the loop stops")
	})
}

// Guards against a run that waits ahead for as long as the loop rests.
func TestARunAheadThatCameTooOftenIsReturnedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.set(func(o *outside) {
			o.answer = func(claim.Request) ([]claim.Run, error) { return []claim.Run{{ID: "again"}}, nil }
		})
		f := &fetcher{outside: o}
		runLoop(t, "manual:6", o, claim.Config{Starter: f, Options: claim.Options{Prefetch: true, MaxBackoff: 5 * time.Minute}})
		time.Sleep(20 * time.Minute)
		require.NotEmpty(t, f.released())
		require.LessOrEqual(t, f.released()[0], 5*time.Minute+11*time.Second)
	})
}

func TestARunAheadIsOfferedAgainWhileTheGroupRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.set(func(o *outside) {
			o.answer = func(claim.Request) ([]claim.Run, error) { return []claim.Run{{ID: "again"}}, nil }
		})
		f := &fetcher{outside: o, stubborn: true}
		runLoop(t, "manual:6", o, claim.Config{Starter: f, Options: claim.Options{Prefetch: true, MaxBackoff: 5 * time.Minute}})
		time.Sleep(20 * time.Minute)
		at := f.released()
		require.NotEmpty(t, at)
		for _, gap := range gaps(at) {
			require.LessOrEqual(t, gap, 11*time.Second, "%v", at[:5])
		}
	})
}

// Each test here guards against a bug that systems like this one really had.

// A storm of wake-ups over-claims, because pending claims were not counted.
func TestTrapWakeUpStormOverClaims(t *testing.T) {
	tests := []struct {
		name string
		cfg  claim.Config
	}{
		{name: "one run a claim"},
		{name: "as many as there are open slots", cfg: claim.Config{Options: claim.Options{DemandAll: true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutside()
				o.latency = 7 * time.Millisecond
				o.lasts = 30 * time.Millisecond
				random := rand.New(rand.NewPCG(1, 2))
				l := runLoop(t, "manual:4", o, tt.cfg)
				for range 3000 {
					if random.IntN(3) == 0 {
						o.enqueue("manual", random.IntN(5))
					}
					for range random.IntN(20) {
						go l.Wake()
					}
					time.Sleep(time.Millisecond)
					counts := l.pool.Counts()
					require.Equal(t, counts.Size, counts.Open+counts.Claimed+counts.Running)
				}
				require.Equal(t, 4, o.peakOf("manual"), "running and asked for, as the server sees it")
				for _, req := range o.requests() {
					require.Positive(t, req.Demand)
				}
			})
		})
	}
}

// Wake-ups while a claim is in flight must not be lost, nor each cause a claim.
func TestTrapWakeUpDuringAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.latency = 100 * time.Millisecond
		l := runLoop(t, "manual:4", o, claim.Config{})
		time.Sleep(50 * time.Millisecond)
		for range 1000 {
			l.Wake()
		}
		time.Sleep(900 * time.Millisecond)
		require.Equal(t, []time.Duration{0, 100 * time.Millisecond}, o.asks("manual"), "one more, when the reply is there")
	})
}

// A loop that was at capacity when the connection dropped does not resume after
// the reconnect.
func TestTrapFullLoopResumesAfterReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 3)
		l := runLoop(t, "manual:2", o, claim.Config{})
		require.Equal(t, slots.Counts{Size: 2, Running: 2}, l.pool.Counts())

		connected := make(chan struct{})
		o.set(func(o *outside) { o.hold = connected })
		time.Sleep(time.Minute)
		o.finish("r1") // while the connection is away
		time.Sleep(time.Minute)
		require.Len(t, o.runs(""), 2)

		close(connected)
		synctest.Wait()
		require.Equal(t, []string{"r1", "r2", "r3"}, o.runs(""))
	})
}

// The same, where claims are refused while the connection is away.
func TestTrapFullLoopResumesAfterFailedClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 3)
		l := runLoop(t, "manual:2", o, claim.Config{})
		o.set(func(o *outside) { o.answer = fails(errGone) })
		time.Sleep(time.Minute)
		o.finish("r1")
		time.Sleep(time.Minute)
		o.set(func(o *outside) { o.answer = nil })
		l.Wake() // what a worker does when it is back on the topic
		synctest.Wait()
		require.Equal(t, []string{"r1", "r2", "r3"}, o.runs(""))
	})
}

// A claim reply that arrives while shutting down: its run is lost.
func TestTrapReplyWhileShuttingDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.latency = 5 * time.Second
		o.enqueue("manual", 2)
		l := runLoop(t, "manual:2", o, claim.Config{})
		time.Sleep(time.Second)
		l.endIntake()
		require.False(t, l.ended(t), "the claim is in flight")

		time.Sleep(4 * time.Second)
		require.True(t, l.ended(t))
		require.Equal(t, []string{"r1"}, o.runs(""), "the run of the reply, and no other claim")
		require.Equal(t, slots.Counts{Size: 2, Open: 1, Running: 1}, l.pool.Counts())
	})
}

// A claim in flight at the disconnect holds its slot until the claim time-out.
func TestTrapClaimInFlightAtTheDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		lost := make(chan struct{})
		o.hold, o.answer = lost, fails(errGone)
		l := runLoop(t, "manual:1", o, claim.Config{})
		time.Sleep(time.Minute)
		require.Equal(t, slots.Counts{Size: 1, Claimed: 1}, l.pool.Counts())
		close(lost)
		synctest.Wait()
		require.Equal(t, slots.Counts{Size: 1, Open: 1}, l.pool.Counts())
	})
}

// Old loops survive their restart and keep claiming: after 500 runs an idle worker
// claims 15 to 70 times a second.
func TestTrapIdleLoopAfter500Runs(t *testing.T) {
	idleFor := func(t *testing.T, o *outside) {
		before := len(o.asks("manual"))
		time.Sleep(time.Hour)
		pauses := gaps(o.asks("manual")[before:])
		for _, pause := range pauses[40:] { // grown by then
			require.GreaterOrEqual(t, pause, 9*time.Second)
		}
		require.Less(t, len(pauses), 3600/9)
	}
	t.Run("runs that come with wake-ups", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := newOutside()
			o.lasts = 3 * time.Second
			l := runLoop(t, "manual:5", o, claim.Config{})
			for range 500 {
				o.enqueue("manual", 1)
				l.Wake()
				l.Wake()
				time.Sleep(time.Second)
			}
			time.Sleep(10 * time.Second)
			require.Len(t, o.runs(""), 500)
			idleFor(t, o)
		})
	})
	t.Run("a loop that was stopped and run again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := newOutside()
			o.lasts = time.Second
			l := runLoop(t, "manual:5", o, claim.Config{})
			for range 500 {
				o.enqueue("manual", 1)
				l.Wake()
				time.Sleep(time.Second)
				l.endIntake()
				require.True(t, l.ended(t))
				l.start(t)
			}
			time.Sleep(10 * time.Second)
			require.Len(t, o.runs(""), 500)
			idleFor(t, o)
		})
	})
}
