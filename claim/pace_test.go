package claim_test

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
)

func count(text, part string) int { return strings.Count(text, part) }

// requireGrowth fails unless the pauses are those of one back-off that was not
// started over: by 1.15, a tenth off either way, never beyond its ends.
func requireGrowth(t *testing.T, pauses []time.Duration, shortest, longest time.Duration) {
	t.Helper()
	require.NotEmpty(t, pauses)
	for i, pause := range pauses {
		base := min(float64(shortest)*math.Pow(1.15, float64(i)), float64(longest))
		require.GreaterOrEqual(t, pause, shortest, "pause %d", i)
		require.LessOrEqual(t, pause, longest, "pause %d", i)
		require.GreaterOrEqual(t, float64(pause), 0.899*base, "pause %d of %v", i, pauses)
		require.LessOrEqual(t, float64(pause), 1.101*base, "pause %d of %v", i, pauses)
	}
}

func TestBackOffGrowsFromItsMinimumToItsMaximum(t *testing.T) {
	tests := []struct {
		name              string
		cfg               claim.Config
		shortest, longest time.Duration
	}{
		{name: "by default", shortest: time.Second, longest: 10 * time.Second},
		{name: "as set", cfg: claim.Config{Options: claim.Options{MinBackoff: 2 * time.Second, MaxBackoff: time.Minute}}, shortest: 2 * time.Second, longest: time.Minute},
		{name: "always the same", cfg: claim.Config{Options: claim.Options{MinBackoff: 3 * time.Second, MaxBackoff: 3 * time.Second}}, shortest: 3 * time.Second, longest: 3 * time.Second},
		{name: "a maximum below the minimum is raised", cfg: claim.Config{Options: claim.Options{MinBackoff: 20 * time.Second}}, shortest: 20 * time.Second, longest: 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutside()
				runLoop(t, "manual:1", o, tt.cfg)
				time.Sleep(time.Hour)
				pauses := gaps(o.asks("manual"))
				requireGrowth(t, pauses, tt.shortest, tt.longest)
				require.GreaterOrEqual(t, float64(pauses[len(pauses)-1]), 0.9*float64(tt.longest))
			})
		})
	}
}

func TestBackOffDiffersBetweenWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newOutside(), newOutside()
		runLoop(t, "manual:1", one, claim.Config{})
		runLoop(t, "manual:1", two, claim.Config{})
		time.Sleep(time.Hour)
		require.NotEqual(t, one.asks("manual"), two.asks("manual"))
	})
}

func TestBackOffStartsOver(t *testing.T) {
	tests := []struct {
		name string
		do   func(o *outside, l *rig)
		now  bool // the claim follows at once
	}{
		{name: "after a finished run", now: true, do: func(o *outside, _ *rig) { o.finish("r1") }},
		{name: "after a claim that brought a run", do: func(o *outside, _ *rig) { o.enqueue("manual", 1) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutside()
				o.enqueue("manual", 1)
				l := runLoop(t, "manual:3", o, claim.Config{})
				time.Sleep(10 * time.Minute)
				before := len(o.asks("manual"))
				at := time.Since(o.began)

				tt.do(o, l)
				synctest.Wait()
				if tt.now {
					require.Equal(t, at, o.asks("manual")[before])
				} else {
					time.Sleep(10 * time.Second)
					before++ // that claim brought the run; the pauses begin with the one after
				}
				time.Sleep(10 * time.Minute)
				requireGrowth(t, gaps(o.asks("manual")[before:]), time.Second, 10*time.Second)
			})
		})
	}
}

// Guards against a thousand workers that all ask six times more for each run that one of
// them got.
func TestAWakeUpClaimsOnceAndLeavesThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		l := runLoop(t, "manual:1", o, claim.Config{})
		time.Sleep(10 * time.Minute)
		for range 20 {
			before, at := len(o.asks("manual")), time.Since(o.began)
			l.Wake()
			synctest.Wait()
			asks := o.asks("manual")
			require.Len(t, asks, before+1)
			require.Equal(t, at, asks[before], "a wake-up is answered at once")
			time.Sleep(20 * time.Second)
			next := o.asks("manual")[before+1] - at
			require.GreaterOrEqual(t, next, 9*time.Second, "the pauses are as long as before")
		}
		require.EqualValues(t, 20, l.Stats().Claims.EmptyWoken)
		require.Greater(t, l.Stats().Claims.Empty, l.Stats().Claims.EmptyWoken)
	})
}
