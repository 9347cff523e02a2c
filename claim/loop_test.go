package claim_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

func TestEachGroupRunsItsOwnLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("fast_lane", 1) // r1
		o.enqueue("manual", 2)    // r2, r3
		runLoop(t, "fast_lane:1", o, claim.Config{})
		runLoop(t, "manual>*:4", o, claim.Config{})

		require.Equal(t, []string{"r1"}, o.runs("fast_lane"))
		require.Equal(t, []string{"r2", "r3"}, o.runs("manual>*"))
	})
}

func TestRequestOnTheWire(t *testing.T) {
	tests := []struct {
		name   string
		group  string
		config claim.Config
		json   string
	}{
		{name: "no worker name is null", group: "manual>*:4", json: `{"demand":1,"worker_name":null,"queues":["manual","*"]}`},
		{name: "a worker name", group: "fast_lane:2", config: claim.Config{WorkerName: "pod-7"}, json: `{"demand":1,"worker_name":"pod-7","queues":["fast_lane"]}`},
		{name: "demand raised to the open slots", group: "*:3", config: claim.Config{Options: claim.Options{DemandAll: true}}, json: `{"demand":3,"worker_name":null,"queues":["*"]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutside()
				runLoop(t, tt.group, o, tt.config)
				got, err := json.Marshal(o.requests()[0])
				require.NoError(t, err)
				require.Equal(t, tt.json, string(got))
			})
		})
	}
}

func TestEachClaimCarriesItsGroupsQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		runLoop(t, "fast_lane:1", o, claim.Config{})
		runLoop(t, "manual>default>*:4", o, claim.Config{})
		time.Sleep(time.Minute)

		seen := map[string]int{}
		for _, req := range o.requests() {
			switch len(req.Queues) {
			case 1:
				require.Equal(t, []string{"fast_lane"}, req.Queues)
			default:
				require.Equal(t, []string{"manual", "default", "*"}, req.Queues)
			}
			seen[req.Queues[0]]++
		}
		require.Greater(t, seen["fast_lane"], 5)
		require.Greater(t, seen["manual"], 5)
	})
}

func TestAFullGroupStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 10)
		l := runLoop(t, "manual>*:3", o, claim.Config{})
		time.Sleep(time.Hour)
		l.Wake()
		time.Sleep(time.Hour)

		require.Equal(t, []time.Duration{0, 0, 0}, o.asks("manual>*"))
		require.Equal(t, []string{"r1", "r2", "r3"}, o.runs(""))
		require.Equal(t, slots.Counts{Size: 3, Running: 3}, l.pool.Counts())
	})
}

func TestAFinishedRunResumesItsOwnGroupOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("fast_lane", 2) // r1, r2
		o.enqueue("manual", 2)    // r3, r4
		runLoop(t, "fast_lane:1", o, claim.Config{})
		runLoop(t, "manual:1", o, claim.Config{})
		time.Sleep(time.Minute)

		o.finish("r1")
		synctest.Wait()
		require.Equal(t, []time.Duration{0, time.Minute}, o.asks("fast_lane"))
		require.Equal(t, []time.Duration{0}, o.asks("manual"))
		require.Equal(t, []string{"r1", "r2"}, o.runs("fast_lane"))
		require.Equal(t, []string{"r3"}, o.runs("manual"))
	})
}

func TestWakeMakesEveryGroupWithAFreeSlotClaimAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("fast_lane", 1)
		full := runLoop(t, "fast_lane:1", o, claim.Config{})
		free := runLoop(t, "manual:1", o, claim.Config{})
		other := runLoop(t, "default:2", o, claim.Config{})
		time.Sleep(500 * time.Millisecond) // the free ones are in their first pause

		full.Wake()
		free.Wake()
		other.Wake()
		synctest.Wait()
		require.Equal(t, []time.Duration{0}, o.asks("fast_lane"))
		require.Equal(t, []time.Duration{0, 500 * time.Millisecond}, o.asks("manual"))
		require.Equal(t, []time.Duration{0, 500 * time.Millisecond}, o.asks("default"))
	})
}

func TestAWakeUpOfAFullGroupCausesNoClaimLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 1)
		l := runLoop(t, "manual:1", o, claim.Config{})
		l.Wake()
		time.Sleep(time.Minute)
		o.finish("r1")
		synctest.Wait()
		require.Equal(t, []time.Duration{0, time.Minute}, o.asks("manual"), "one for the slot, none for the old wake-up")
	})
}

func TestARunThatFinishedBeforeTheClaimCausesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.latency = time.Second
		o.enqueue("manual", 2)
		runLoop(t, "manual:3", o, claim.Config{})
		time.Sleep(1500 * time.Millisecond) // r1 runs, the claim that brings r2 is in flight
		o.finish("r1")
		time.Sleep(2 * time.Second)
		require.Equal(t, []time.Duration{0, time.Second, 2 * time.Second}, o.asks("manual"), "the third saw the slot; it brought nothing, so there is a pause")
	})
}

func TestFastLaneBacksOffAloneWhileTheDefaultGroupWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.lasts = 100 * time.Millisecond
		o.enqueue("manual", 2400) // a minute of work for four slots
		runLoop(t, "fast_lane:1", o, claim.Config{})
		runLoop(t, "manual>*:4", o, claim.Config{})
		time.Sleep(time.Minute - time.Millisecond)

		require.Len(t, o.runs("manual>*"), 2400)
		require.Len(t, o.asks("manual>*"), 2400, "no claim was in vain")
		pauses := gaps(o.asks("fast_lane"))
		requireGrowth(t, pauses, time.Second, 10*time.Second)
		require.InDelta(t, 14, len(pauses), 3, "as many as fit into a minute: 1 + 1.15 + 1.32 …")
	})
}

func TestAPlainCapacityIsOneGroup(t *testing.T) {
	record := func(t *testing.T, group string) (asked []ask, started []start) {
		synctest.Test(t, func(t *testing.T) {
			o := newOutside()
			o.lasts = time.Minute
			for _, queue := range []string{"default", "manual", "fast_lane", "manual"} {
				o.enqueue(queue, 3)
			}
			o.enqueue("default", 100)
			runLoop(t, group, o, claim.Config{})
			time.Sleep(10*time.Minute - time.Second)
			require.Equal(t, 5, o.peakOf("manual>*"))
			asked, started = o.asked, o.started
		})
		return asked, started
	}
	asked, started := record(t, "manual>*:5")
	require.Len(t, started, 50)
	for i, id := range []string{"r4", "r5", "r6", "r10", "r11", "r12", "r1", "r2", "r3"} {
		require.Equal(t, id, started[i].run.ID, "manual first, then any")
	}
	plainAsked, plainStarted := record(t, slots.Format(slots.Plain(5)))
	require.Equal(t, asked, plainAsked)
	require.Equal(t, started, plainStarted)
}

func TestARunKeepsItsGroupForLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("fast_lane", 2) // r1, r2
		fast := runLoop(t, "fast_lane:1", o, claim.Config{})
		rest := runLoop(t, "manual>*:1", o, claim.Config{}) // takes r2, of the other's queue
		require.Equal(t, []string{"r1"}, o.runs("fast_lane"))
		require.Equal(t, []string{"r2"}, o.runs("manual>*"))

		o.finish("r2")
		synctest.Wait()
		require.Equal(t, slots.Counts{Size: 1, Running: 1}, fast.pool.Counts(), "the group that claimed it, not the one of its queue")
		require.Equal(t, slots.Counts{Size: 1, Open: 1}, rest.pool.Counts())
	})
}

func TestAGrownPoolIsUsedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 3)
		l := runLoop(t, "manual:1", o, claim.Config{})
		time.Sleep(time.Minute)
		l.pool.Resize(3)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, time.Minute, time.Minute}, o.asks("manual"))
	})
}

func TestAClaimThatFailsFreesItsSlotAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.answer = fails(errGone)
		l := runLoop(t, "manual:2", o, claim.Config{Options: claim.Options{DemandAll: true}})
		require.Equal(t, slots.Counts{Size: 2, Open: 2}, l.pool.Counts())
		time.Sleep(10 * time.Minute)
		requireGrowth(t, gaps(o.asks("manual")), time.Second, 10*time.Second)

		o.enqueue("manual", 1)
		o.set(func(o *outside) { o.answer = nil })
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"r1"}, o.runs(""))
	})
}

func TestAFailureIsLoggedWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		o.answer = fails(errGone)
		l := runLoop(t, "manual:1", o, claim.Config{Logger: logger})
		time.Sleep(time.Hour)
		require.Equal(t, 1, count(book(), "level=WARN msg=\"claim failed, the loop keeps trying\" group=manual error=\"the connection is gone\""), book())

		o.set(func(o *outside) { o.answer = fails(context.DeadlineExceeded) })
		time.Sleep(time.Hour)
		require.Equal(t, 2, count(book(), "level=WARN"), book())

		o.set(func(o *outside) { o.answer = nil })
		time.Sleep(time.Hour)
		require.Equal(t, 1, count(book(), "level=INFO msg=\"claims are answered again\""), book())
		require.Equal(t, 3, count(book(), "\n"), book())

		stats := l.Stats().Claims
		require.Equal(t, stats.Total(), stats.Failed+stats.Empty)
		require.Greater(t, stats.Failed, uint64(600))
		require.Greater(t, stats.Empty, uint64(300))
	})
}

func TestStop(t *testing.T) {
	tests := []struct {
		name string
		set  func(o *outside)
		stop func(l *rig)
	}{
		{name: "intake ends in a pause", stop: func(l *rig) { l.endIntake() }},
		{name: "work ends in a pause", stop: func(l *rig) { l.endWork() }},
		{name: "both end in a pause", stop: func(l *rig) { l.endIntake(); l.endWork() }},
		{name: "intake ends while the group is full", set: func(o *outside) { o.enqueue("manual", 9) }, stop: func(l *rig) { l.endIntake() }},
		{name: "work ends while the group is full", set: func(o *outside) { o.enqueue("manual", 9) }, stop: func(l *rig) { l.endWork() }},
		{name: "work ends during a claim", set: func(o *outside) { o.hold = make(chan struct{}) }, stop: func(l *rig) { l.endWork() }},
		{name: "intake, then work, during a claim", set: func(o *outside) { o.hold = make(chan struct{}) }, stop: func(l *rig) { l.endIntake(); l.endWork() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logger, book := logBook()
				o := newOutside()
				if tt.set != nil {
					tt.set(o)
				}
				l := runLoop(t, "manual:2", o, claim.Config{Logger: logger})
				time.Sleep(time.Millisecond)
				require.False(t, l.ended(t))
				asked := len(o.asks("manual"))

				tt.stop(l)
				require.True(t, l.ended(t))
				l.Wake() // harmless now
				time.Sleep(time.Hour)
				require.Len(t, o.asks("manual"), asked)
				require.Zero(t, l.pool.Counts().Claimed)
				require.Empty(t, book(), "an expected stop is no news")
				require.Zero(t, l.Stats().Claims.Failed)
			})
		})
	}
}

func TestAStopBeforeTheStartClaimsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, end := context.WithCancel(t.Context())
		end()
		o := newOutside()
		loop := claim.NewLoop(claim.Config{Pool: slots.NewPool(slots.Plain(1)[0]), Claimer: o, Starter: o})
		loop.Run(over, t.Context())
		loop.Run(t.Context(), over)
		require.Empty(t, o.requests())
	})
}

func TestAStopWhileTheServerIsAwayIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		back := o.leave()
		l := runLoop(t, "manual:1", o, claim.Config{Logger: logger})
		require.Equal(t, claim.Unready, l.Stats().State)
		l.endIntake()
		require.True(t, l.ended(t))
		back()
		synctest.Wait()
		require.Empty(t, o.requests())
		require.Empty(t, book())
	})
}

func TestARealFailureDuringAStopIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		reply := make(chan struct{})
		o.hold, o.answer = reply, fails(errGone)
		l := runLoop(t, "manual:1", o, claim.Config{Logger: logger})
		l.endIntake()
		close(reply)
		require.True(t, l.ended(t))
		require.Equal(t, 1, count(book(), "the connection is gone"))
	})
}

// A longest pause that is shorter than the default of the shortest is kept, and so is a shortest
// that is longer than the default of the longest.
func TestOneBoundOfThePausesIsEnough(t *testing.T) {
	for given, want := range map[claim.Options][2]time.Duration{
		{}:                             {time.Second, 10 * time.Second},
		{MaxBackoff: time.Minute}:      {time.Second, time.Minute},
		{MaxBackoff: time.Millisecond}: {time.Millisecond, time.Millisecond},
		{MinBackoff: time.Minute}:      {time.Minute, time.Minute},
	} {
		full := given.WithDefaults()
		require.Equal(t, want, [2]time.Duration{full.MinBackoff, full.MaxBackoff}, "%+v", given)
	}
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		runLoop(t, "manual:1", o, claim.Config{Options: claim.Options{MaxBackoff: 100 * time.Millisecond}})
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, o.asks("manual"), 11)
	})
}
