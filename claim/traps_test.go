package claim_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

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
