package claim_test

import (
	"context"
	"slices"
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
		require.Equal(t, uint64(1), loop.Stats().Exhausted)
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
		require.Equal(t, uint64(2), l.Stats().Exhausted)
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
			l := runLoop(t, "manual:2", o, claim.Config{GiveBack: func(_ context.Context, run claim.Run) bool {
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

// fetcher records what is prefetched, and starts it in outside.
type fetcher struct {
	*outside

	cannot   bool // nothing can be given back
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

// released returns when runs were given back.
func (f *fetcher) released() []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.back)
}

func (f *fetcher) CanPrefetch() bool { return !f.cannot }

func (f *fetcher) Prefetch(run claim.Run, _ slots.Group) claim.Ahead {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = append(f.ids, run.ID)
	return &early{f, run, make(chan struct{})}
}

// early is a run ahead that can be given back at once, unless its fetcher is stubborn.
type early struct {
	*fetcher

	run  claim.Run
	over chan struct{}
}

func (f *early) Start(slot *slots.Slot) { f.outside.Start(f.run, slot) }
func (f *early) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.back = append(f.back, time.Since(f.began))
	if !f.stubborn {
		close(f.over)
	}
}

func (f *early) Over() <-chan struct{} { return f.over }

func TestOneRunIsClaimedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 4)
		f := &fetcher{outside: o}
		l := runLoop(t, "manual:1", o, claim.Config{Prefetcher: f})
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
		l := runLoop(t, "manual:1", o, claim.Config{Prefetcher: f})
		time.Sleep(time.Hour)
		require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}, f.released(), "three times in vain, then no more")
		require.Equal(t, uint64(3), l.Stats().Returned)
		o.finish("r1")
		synctest.Wait()
		require.Len(t, f.fetched(), 4, "a run has finished: there is hope again")
	})
}

func TestNothingIsClaimedAheadThatCouldNotBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 4)
		runLoop(t, "manual:1", o, claim.Config{Prefetcher: &fetcher{outside: o, cannot: true}})
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
		l := runLoop(t, "manual:1", o, claim.Config{Prefetcher: f})
		time.Sleep(25 * time.Second)
		require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second}, f.released(), "it is asked for again")
		require.Equal(t, []string{"r2"}, f.fetched(), "and no other is claimed meanwhile")
		require.Zero(t, l.Stats().Returned)
		l.endIntake()
		o.finish("r1")
		require.True(t, l.ended(t))
		require.Equal(t, []string{"r1", "r2"}, o.runs(""), "also when the loop stops")
	})
}

// Guards against a run that waits ahead for as long as the loop rests.
func TestARunAheadThatCameTooOftenIsReleasedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.set(func(o *outside) {
			o.answer = func(claim.Request) ([]claim.Run, error) { return []claim.Run{{ID: "again"}}, nil }
		})
		f := &fetcher{outside: o}
		runLoop(t, "manual:6", o, claim.Config{Prefetcher: f, MaxBackoff: 5 * time.Minute})
		time.Sleep(20 * time.Minute)
		require.NotEmpty(t, f.released())
		require.LessOrEqual(t, f.released()[0], 5*time.Minute+11*time.Second)
	})
}
