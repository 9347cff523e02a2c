package claim_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

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

func (f *fetcher) Prefetch(run claim.Run, _ slots.Group) claim.Ahead {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = append(f.ids, run.ID)
	return &early{f, run, make(chan struct{})}
}

// early is a run ahead that can be returned at once, unless its fetcher is stubborn.
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
func TestARunAheadThatCameTooOftenIsReleasedInTime(t *testing.T) {
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
