package phxworker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/terms"
	"github.com/phxworker/phxworker/slots"
)

func TestWhatWasClaimedAndNotBegunIsGivenBackOnADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "claim", Delay: 5 * time.Second})
		worker, stop := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second) // the server has given the run away, the worker does not know it yet
		require.Equal(t, "claimed", h.state("a"))
		worker.Drain()
		require.NoError(t, stop())
		require.Equal(t, "available", h.state("a"))
		require.Equal(t, "drain", h.record("a").Owners[0].ReleaseReason)
		require.Equal(t, 1, h.record("a").Attempt, "that was no attempt")
		for _, join := range h.sent("phx_join") {
			require.Equal(t, "worker:queue", join.topic, "nor was it begun")
		}
	})
}

// Guards against a run that is lost because the server does not take it back as the
// worker stops.
func TestWhatIsNotTakenBackOnADrainIsExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "claim", Delay: 5 * time.Second})
		h.fail(fault.Rule{Action: fault.Refuse, Event: "run:release", Response: []byte(`{"reason":"not_claimed"}`)})
		worker, stop := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		worker.Drain()
		h.gate.release("a")
		require.NoError(t, stop())
		require.Equal(t, "success", h.state("a"))
		require.Len(t, h.sent("run:release"), 1)
	})
}

// Guards against a run that its own worker, which has lost it and does not know yet,
// takes from the queue and drops.
func TestARunThatComesBackToItsWorkerTooSoonIsPostponed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Minute})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.Before, Event: "run:renew", Count: -1})
		let := make(chan struct{})
		var tries atomic.Int32
		worker, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:2"), Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) {
			if tries.Add(1) == 1 {
				<-let // whatever becomes of its context, so that the run is not over for a while
			}
			return nil, nil
		})}))
		settle(90 * time.Second)
		close(let)
		record := h.record("a")
		require.Equal(t, "success", string(record.State))
		require.Equal(t, "postpone", record.Owners[1].ReleaseReason)
		require.Equal(t, 2, record.Attempt, "the lease that was lost, and no more")
		require.Equal(t, 1, h.taken("a", "run:complete"))
		require.Equal(t, 0, worker.Stats().Groups[0].Running)
		require.Zero(t, worker.Stats().Undelivered, "the end of the first one's topic says that the run is not its own")
	})
}

// A server that takes no runs back has none claimed ahead of a slot.
func TestNothingIsClaimedAheadOnAPlainServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := plain(t)
		h.enqueue("manual", "a", "b")
		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Claim: phxworker.Claim{Prefetch: true}}))
		settle(time.Minute)
		require.Equal(t, "started", h.state("a"))
		require.Equal(t, "available", h.state("b"))
	})
}

// Guards against a release that is tried for ever when nobody waits for it any more.
func TestAReleaseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		worker, _ := h.hire(all(phxworker.Config{}))
		settle(time.Second)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, worker.ReleaseRun(over, terms.Release{ID: "a"}), context.Canceled)
	})
}

func TestAWorkerThatIsAbortedGivesItsRunsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		worker, stop := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		worker.Abort()
		require.ErrorIs(t, stop(), phxworker.ErrAborted)
		require.Zero(t, h.taken("a", "run:complete"))
		require.Equal(t, "requeue", h.record("a").Owners[0].ReleaseReason)
		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
		settle(30 * time.Second)
		require.Equal(t, "started", h.state("a"))
		require.Equal(t, 2, h.record("a").Attempt)
	})
}

func TestOneRunIsClaimedAheadWithItsPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b", "c")
		worker, stop := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Claim: phxworker.Claim{Prefetch: true}}))
		settle(time.Second)
		require.Equal(t, "started", h.state("a"))
		require.Equal(t, 1, h.taken("b", "fetch:plan"), "it is joined, and its plan is there")
		require.Zero(t, h.taken("b", "fetch:dataclip")+h.taken("b", "run:start"))
		require.Equal(t, "available", h.state("c"))
		require.Equal(t, uint64(1), worker.Stats().Groups[0].Prefetched)

		h.gate.release("a")
		settle(time.Second)
		require.Equal(t, "started", h.state("b"))
		require.Equal(t, "claimed", h.state("c"))
		settle(10 * time.Second)
		require.Equal(t, "prefetch", h.record("c").Owners[0].ReleaseReason, "it has waited long enough")
		h.gate.release("b")
		h.gate.release("c")
		settle(10 * time.Second)
		require.Equal(t, "success", h.state("c"))
		require.NoError(t, stop())
		require.Zero(t, worker.Stats().Delivery.Settled[runner.Unsettled])
	})
}

func TestARunAheadThatCannotGoOnFreesItsSlotAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b", "c")
		worker, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Claim: phxworker.Claim{Prefetch: true}}))
		settle(time.Second)
		require.NoError(t, h.server.Cancel("b", "not needed")) // while it has no slot
		settle(time.Second)
		require.Equal(t, "cancelled", h.state("b"))
		h.gate.release("a")
		settle(time.Second)
		require.Equal(t, "started", h.state("c"))
		require.Equal(t, 1, worker.Stats().Groups[0].Running)
	})
}

func TestAClaimMayWaitAtTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		_, stop := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
		settle(10 * time.Second)
		require.Len(t, h.sent("claim"), 1, "it waits")
		require.Contains(t, h.sent("claim")[0].payload, `"wait_ms":20000`)
		h.enqueue("manual", "a")
		settle(0)
		require.Equal(t, "started", h.state("a"), "no wake-up was needed")
		h.gate.release("a")
		settle(5 * time.Second)
		begin := time.Now()
		require.NoError(t, stop())
		require.Zero(t, time.Since(begin), "a stop ends the wait")
	})
}

// A claim that waits is an ordinary one with a field more, and a topic that crashes
// over it must not do so for ever. It crashes over the first two: the first is made with
// the first status, so that either may be the cause.
func TestACrashOverAWaitingClaimEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Crash, When: fault.Before, Event: "claim", Count: 2})
		worker, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		h.gate.release("a")
		settle(time.Minute)
		claims := h.sent("claim")
		require.Greater(t, len(claims), 2)
		require.Contains(t, claims[0].payload, "wait_ms")
		for _, claim := range claims[2:] {
			require.NotContains(t, claim.payload, "wait_ms")
		}
		require.Equal(t, []string{"longpoll"}, worker.Stats().ExtensionsOff)
		require.Equal(t, "success", h.state("a"))
	})
}

func TestAReleaseIsKnownByTheEndOfItsTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{StatusTimeout: time.Hour})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.After, Event: "run:release", Count: 1})
		worker, _ := h.hire(phxworker.Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, phxworker.ErrRequeue })})
		settle(time.Minute)
		require.Zero(t, worker.Stats().Undelivered, "the server has closed the topic: it has the release")
	})
}

func TestARunIsReportedWhenItsReleaseIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.Before, Event: "run:release", Count: -1})
		worker, stop := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		worker.Abort()
		require.ErrorIs(t, stop(), phxworker.ErrAborted)
		require.Equal(t, 1, h.taken("a", "run:complete"), "a failure falls back")
		require.Zero(t, worker.Stats().Undelivered)
	})
}

// The topic of a run is closed with its release, and the reply may come behind that.
func TestAReleaseWhoseReplyComesBehindTheClose(t *testing.T) {
	tests := []struct {
		name string
		cfg  phxworker.Config
	}{
		{"accept", phxworker.Config{Hooks: phxworker.Hooks{Accept: func(_ context.Context, run *phxworker.Run) error {
			if run.ID == "b" {
				return phxworker.ErrRequeue
			}
			return nil
		}}}},
		{"prefetch", phxworker.Config{Claim: phxworker.Claim{Prefetch: true}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				tt.cfg.Groups, tt.cfg.Extensions = slots.MustParse("manual:1"), []string{"release"}
				if !tt.cfg.Claim.Prefetch {
					tt.cfg.Groups = slots.MustParse("manual:2")
				}
				worker, _ := h.hire(tt.cfg)
				settle(time.Second)
				h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "run:release", Delay: 100 * time.Millisecond, Count: 1})
				h.enqueue("manual", "b")
				settle(20 * time.Second)
				stats := worker.Stats()
				require.Zero(t, stats.Undelivered, "%v %+v", stats.Delivery.Settled, stats.Results)
				require.Positive(t, stats.Delivery.Settled[runner.Returned])
			})
		})
	}
}

// Guards against runs that are lost because each waits for the release of the one
// before.
func TestUnansweredReleasesLoseNoRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		var ids []string
		for i := range 20 {
			ids = append(ids, fmt.Sprint("r", i))
		}
		h.enqueue("manual", ids...)
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "claim", Delay: 5 * time.Second, Count: 1})
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.Before, Event: "run:release", Count: -1})
		_, stop := h.hire(phxworker.Config{
			Groups: slots.MustParse("manual:20"), Claim: phxworker.Claim{DemandAll: true}, Extensions: []string{"release"}, Grace: time.Minute,
			Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, nil }),
		})
		settle(time.Second)
		_ = stop()
		for _, id := range ids {
			require.Contains(t, []string{"success", "available"}, h.state(id), "%s was neither executed nor returned", id)
		}
	})
}

// once is an engine that gives a run back the first time, after something was done.
func once(do func(run *phxworker.Run)) phxworker.Engine {
	var tried atomic.Bool
	return phxworker.Func(func(_ context.Context, run *phxworker.Run) (any, error) {
		if tried.Swap(true) {
			return nil, nil
		}
		do(run)
		return nil, phxworker.ErrRequeue
	})
}

func nothing(*phxworker.Run) {}

// Guards against a run that was returned, and whose end is then reported as well,
// or that stays with this worker, because the connection was lost with the answer.
func TestAReleaseWhoseOutcomeIsUnknownIsMadeAgain(t *testing.T) {
	for _, when := range []fault.When{fault.Before, fault.After} {
		t.Run("lost "+string(when), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				h.fail(fault.Rule{Event: "run:release", Action: fault.Drop, When: when})
				worker, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Engine: once(nothing)}))
				settle(time.Minute)
				require.Len(t, h.sent("run:release"), 2)
				require.Equal(t, uint64(1), worker.Stats().Delivery.Settled[runner.Requeued])
				require.Equal(t, "success", h.state("a"))
				require.Equal(t, 2, h.record("a").Attempt, "it was returned once")
				require.Len(t, h.sent("run:complete"), 1, "for the second attempt")
			})
		})
	}
}

// Guards against a run that is lost because a release which failed is taken for one
// that had arrived before.
func TestAReleaseThatIsNotTakenIsReportedAsAnException(t *testing.T) {
	for _, rule := range []fault.Rule{
		{Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_claimed"}`)},
		{Action: fault.Crash, When: fault.Before}, // after which there is no such extension
	} {
		t.Run(string(rule.Action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				rule.Event = "run:release"
				h.fail(rule)
				worker, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Engine: once(func(*phxworker.Run) {
					time.Sleep(time.Millisecond) // so that the release is alone, and the crash its own
				})}))
				settle(time.Minute)
				record := h.record("a")
				require.Equal(t, "exception Requeued", record.Reason+" "+record.ErrorType)
				require.Zero(t, worker.Stats().Delivery.Settled[runner.Requeued])
				require.Len(t, h.sent("run:release"), 1)
			})
		})
	}
}

func TestARunIsGivenBackOnceTheConnectionIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		var events *phxworker.Subscription
		worker, _ := h.hireWith(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Engine: once(func(*phxworker.Run) {
			h.fail(fault.Rule{Event: fault.Connect, Action: fault.Refuse, Count: 2})
			h.cut()
			time.Sleep(time.Millisecond) // until it has been noticed
		})}), func(w *phxworker.Worker) { events = w.Subscribe(100) })
		settle(20 * time.Second)
		require.Equal(t, uint64(1), worker.Stats().Delivery.Settled[runner.Requeued])
		require.Len(t, h.sent("run:release"), 1)
		for e := range events.Events() {
			if e.Result != nil {
				require.Equal(t, phxworker.EventReturned, e.Kind)
				break
			}
		}
	})
}

// Guards against lines that are lost with the topic, which the server closes as it
// takes the run back.
func TestARunIsGivenBackOnceItsLinesHaveArrived(t *testing.T) {
	tests := []struct {
		name     string
		delay    time.Duration // of each answer
		released bool
	}{
		{name: "late", delay: time.Second, released: true},
		{name: "too late", delay: 40 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				h.fail(fault.Rule{Event: "run:log", Action: fault.Delay, Delay: tt.delay, Count: 3})
				h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Engine: once(func(run *phxworker.Run) {
					for i := range 3 {
						run.Print(fmt.Sprint("line ", i))
					}
				})}))
				settle(3*tt.delay + time.Minute)
				lines, releases := h.sent("run:log"), h.sent("run:release")
				for i := range 3 {
					said := func(f sentFrame) bool { return strings.Contains(f.payload, fmt.Sprint("line ", i)) }
					require.True(t, slices.ContainsFunc(lines, said), "line %d", i)
				}
				if !tt.released {
					require.Empty(t, releases, "nobody knows what the server has of it")
					require.Equal(t, "Requeued", h.record("a").ErrorType)
					return
				}
				require.Len(t, releases, 1)
				require.Equal(t, tt.delay, releases[0].at.Sub(lines[2].at), "once the last was answered")
			})
		})
	}
}

// Guards against a worker that spins for ever as it is aborted: run with -timeout, time
// in the bubble stands still meanwhile.
func TestAnAbortEndsARunAheadThatIsNotTakenBack(t *testing.T) {
	for _, away := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			h := extended(t, mockserver.Config{StatusTimeout: time.Hour})
			h.enqueue("manual", "a", "b")
			h.fail(fault.Rule{Action: fault.Refuse, Event: "run:release", Count: -1, Response: []byte(`{"reason":"busy"}`)})
			worker, stop := h.hire(phxworker.Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Claim: phxworker.Claim{Prefetch: true}, Engine: phxworker.Func(func(ctx context.Context, _ *phxworker.Run) (any, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil, context.Cause(ctx)
			})})
			settle(time.Second)
			if away {
				h.fail(fault.Rule{Action: fault.Refuse, Event: fault.Connect, Count: -1})
				h.cut()
				settle(time.Second)
			}
			worker.Abort()
			require.ErrorIs(t, stop(), phxworker.ErrAborted)
			require.LessOrEqual(t, len(h.sent("run:release")), 3)
			if !away {
				require.Equal(t, 1, h.taken("b", "run:complete"))
			}
		})
	}
}

// Whoever cancels a run is stronger than who would return it, also while that waits
// for a connection.
func TestARunThatIsCancelledMeanwhileDoesNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{StatusTimeout: time.Hour})
		h.enqueue("manual", "a")
		worker, _ := h.hire(phxworker.Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Hooks: phxworker.Hooks{Accept: func(context.Context, *phxworker.Run) error {
			h.fail(fault.Rule{Event: fault.Connect, Action: fault.Refuse, Count: -1})
			h.cut()
			time.Sleep(time.Millisecond)
			return phxworker.ErrRequeue
		}}})
		settle(10 * time.Millisecond)
		require.NoError(t, worker.Cancel("a"))
		h.server.ClearFaults()
		settle(time.Minute)
		require.Equal(t, "cancelled", h.state("a"), "releases: %d", len(h.sent("run:release")))
	})
}

func TestARunAheadThatIsCancelledMeanwhileDoesNotGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{StatusTimeout: time.Hour})
		h.enqueue("manual", "a", "b")
		worker, _ := h.hire(phxworker.Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Claim: phxworker.Claim{Prefetch: true}})
		settle(9 * time.Second)
		h.fail(fault.Rule{Event: fault.Connect, Action: fault.Refuse, Count: -1})
		h.cut()
		settle(1500 * time.Millisecond) // the release waits for the connection
		require.NoError(t, worker.Cancel("b"))
		h.server.ClearFaults()
		settle(30 * time.Second)
		require.Equal(t, "cancelled", h.state("b"), "releases: %d", len(h.sent("run:release")))
	})
}

func TestARunOfADrainIsReportedOnAnAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "claim", Delay: 5 * time.Second, Count: 1})
		h.fail(fault.Rule{Action: fault.Withhold, When: fault.Before, Event: "run:release", Count: -1})
		worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), Extensions: []string{"release"}})
		settle(time.Second)
		worker.Drain()
		settle(5 * time.Second)
		require.Len(t, h.sent("run:release"), 1)
		worker.Abort()
		_ = stop()
		require.Equal(t, 1, h.taken("a", "run:complete"), "%+v", worker.Stats().Results)
	})
}

// Guards against a release that is out when the worker is aborted, and takes all the time
// for the report.
func TestAReleaseUnderWayLeavesTimeForTheReport(t *testing.T) {
	for _, name := range []string{"requeue", "prefetch", "accept"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				h.fail(fault.Rule{Action: fault.Withhold, When: fault.Before, Event: "run:release", Count: -1})
				cfg := phxworker.Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1")}
				id := "a"
				switch name {
				case "requeue":
					cfg.Engine = phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) { return nil, phxworker.ErrRequeue })
				case "accept":
					cfg.Hooks.Accept = func(context.Context, *phxworker.Run) error { return phxworker.ErrRequeue }
				case "prefetch":
					cfg.Claim.Prefetch = true
					h.enqueue("manual", "b")
					id = "b"
				}
				worker, stop := h.hire(cfg)
				settle(11 * time.Second) // a release is out
				if name != "prefetch" {
					require.Len(t, h.sent("run:release"), 1)
				}
				worker.Abort()
				_ = stop()
				require.Equal(t, 1, h.taken(id, "run:complete"), "%+v", worker.Stats().Results)
			})
		})
	}
}
