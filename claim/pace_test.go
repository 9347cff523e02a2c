package claim_test

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
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
			synctest.Wait() // a claim may be due at this very moment, and is not the wake-up's
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

// The main loop spins when it cannot claim.
func TestTrapLoopSpinsWhenItCannotClaim(t *testing.T) {
	verifier, other := newKey(t), newKey(t)
	next := 0
	tests := []struct {
		name   string
		cfg    claim.Config
		answer func(claim.Request) ([]claim.Run, error)
		lasts  time.Duration // of the runs, should any be started
		resize int
		most   int // claims in an hour
	}{
		{name: "the group is full", most: 2},
		{name: "the pool was shrunk to nothing", resize: -1, most: 1},
		{name: "every claim fails", answer: fails(errGone), most: 420},
		{name: "every reply is empty", answer: fails(nil), most: 420},
		{name: "every run is badly signed", cfg: claim.Config{Verifier: verifier.verifier(t)}, most: 420, answer: func(claim.Request) ([]claim.Run, error) {
			next++
			id := "r" + strconv.Itoa(next)
			return []claim.Run{{ID: id, Token: other.sign(t, id)}}, nil
		}},
		{name: "every run is without an id", lasts: time.Millisecond, most: 420, answer: func(claim.Request) ([]claim.Run, error) {
			return []claim.Run{{}, {Token: "token"}}, nil
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutside()
				o.answer, o.lasts = tt.answer, tt.lasts
				o.enqueue("manual", 10)
				l := runLoop(t, "manual:2", o, tt.cfg)
				if tt.resize < 0 {
					l.endIntake()
					require.True(t, l.ended(t))
					o.set(func(o *outside) { o.asked = nil })
					l.pool.Resize(0)
					l.start(t)
				}
				time.Sleep(time.Hour)
				require.LessOrEqual(t, len(o.asks("manual")), tt.most)
			})
		})
	}
}

// The same, seen from inside: a full loop does not even look whether there is
// something to do. Each turn of a loop asks whether its intake is over.
func TestTrapFullLoopTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 9)
		loop := claim.NewLoop(claim.Config{Pool: slots.NewPool(slots.Plain(2)[0]), Claimer: o, Starter: o})
		intake, end := context.WithCancel(t.Context())
		counted := &countedContext{Context: intake}
		done := make(chan error)
		go func() { loop.Run(counted, t.Context()); done <- nil }()
		synctest.Wait()
		require.Len(t, o.runs(""), 2)

		turns := counted.asked.Load()
		for range 1000 {
			loop.Wake()
			time.Sleep(time.Second)
		}
		require.Equal(t, turns, counted.asked.Load())
		end()
		require.NoError(t, <-done)
	})
}

// countedContext counts how often it was asked whether it is over.
type countedContext struct {
	context.Context
	asked atomic.Int64
}

func (c *countedContext) Err() error {
	c.asked.Add(1)
	return c.Context.Err()
}

// Guards against a stop, or an operator, who waits until a group has rested.
func TestARestIsEndedByWhoeverAsks(t *testing.T) {
	for _, end := range []string{"intake", "work"} {
		synctest.Test(t, func(t *testing.T) {
			o := newOutside()
			o.enqueue("manual", 1)
			loop := claim.NewLoop(claim.Config{Pool: slots.NewPool(slots.Group{Name: "manual", Queues: []string{"manual"}, Slots: 1}), Claimer: o, Starter: unwilling{o}})
			intake, endIntake := context.WithCancel(t.Context())
			work, endWork := context.WithCancel(t.Context())
			defer endIntake()
			defer endWork()
			var running sync.WaitGroup
			running.Go(func() { loop.Run(intake, work) })
			time.Sleep(time.Second)
			require.Len(t, o.asks("manual"), 6, "it rests")

			brought, err := loop.Claim(t.Context())
			require.NoError(t, err)
			require.True(t, brought, "one that it has seen too often is one, too")
			require.Equal(t, time.Second, o.asks("manual")[6])
			time.Sleep(time.Second)
			asked := len(o.asks("manual"))
			loop.Pause()
			loop.Resume()
			synctest.Wait()
			require.Len(t, o.asks("manual"), asked+1)

			begin := time.Now()
			if end == "intake" {
				endIntake()
			} else {
				endWork()
			}
			running.Wait()
			require.Zero(t, time.Since(begin))
		})
	}
}

// unwilling takes no run: each goes back to the server at once.
type unwilling struct{ *outside }

func (u unwilling) Start(run claim.Run, slot *slots.Slot) {
	u.outside.Start(run, slot)
	u.mu.Lock()
	delete(u.slots, run.ID)
	u.useLocked(slot.Group().Name, -1)
	u.queued["manual"] = append(u.queued["manual"], run)
	u.mu.Unlock()
	slot.FreeReturned()
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
		running.Go(func() { loop.Run(intake, t.Context()) })
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
