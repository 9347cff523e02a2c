package claim_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

func TestAPausedLoopClaimsNothingUntilItIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 3)
		l := runLoop(t, "manual:2", o, claim.Config{Options: claim.Options{Manual: true}})
		l.Wake()
		time.Sleep(time.Hour)
		require.True(t, l.Paused())
		require.Empty(t, o.asks("manual"))

		l.Resume()
		synctest.Wait()
		require.Equal(t, []string{"r1", "r2"}, o.runs("manual"))

		l.Pause()
		o.finish("r1")
		time.Sleep(time.Hour)
		require.Equal(t, []string{"r1", "r2"}, o.runs("manual"), "a freed slot is no reason while it is paused")
		l.Resume()
		synctest.Wait()
		require.Equal(t, []string{"r1", "r2", "r3"}, o.runs("manual"))
	})
}

func TestAPauseInABackOffHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		l := runLoop(t, "manual:2", o, claim.Config{})
		time.Sleep(500 * time.Millisecond)
		l.Pause()
		time.Sleep(time.Hour)
		require.Equal(t, []time.Duration{0}, o.asks("manual"))
	})
}

func TestAPauseKeepsWhatWasClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.set(func(o *outside) {
			o.answer = func(claim.Request) ([]claim.Run, error) {
				return []claim.Run{{ID: "r1"}, {ID: "r2"}}, nil // one more than asked for
			}
		})
		l := runLoop(t, "manual:1", o, claim.Config{})
		l.Pause()
		synctest.Wait()
		require.Equal(t, []string{"r1"}, o.runs("manual"))
		o.finish("r1")
		synctest.Wait()
		require.Equal(t, []string{"r1", "r2"}, o.runs("manual"))
		require.Len(t, o.asks("manual"), 1)
	})
}

func TestClaimPutsOneClaimAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 2)
		l := runLoop(t, "manual:2", o, claim.Config{Options: claim.Options{Manual: true}})
		for _, want := range []bool{true, true, false} { // the last has no slot
			brought, err := l.Claim(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, brought)
		}
		require.Len(t, o.asks("manual"), 2)
		require.Equal(t, []string{"r1", "r2"}, o.runs("manual"))

		o.finish("r1")
		brought, err := l.Claim(t.Context())
		require.NoError(t, err)
		require.False(t, brought, "the queue is empty")
		require.Len(t, o.asks("manual"), 3)
	})
}

func TestClaimDoesNotWaitForABackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		l := runLoop(t, "manual:2", o, claim.Config{})
		time.Sleep(100 * time.Millisecond)
		o.enqueue("manual", 1)
		brought, err := l.Claim(t.Context())
		require.NoError(t, err)
		require.True(t, brought)
		require.Equal(t, 100*time.Millisecond, o.asks("manual")[1])
	})
}

func TestClaimEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := claim.NewLoop(claim.Config{Pool: slots.NewPool(slots.Plain(1)[0])}) // does not run
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		_, err := l.Claim(ctx)
		require.ErrorIs(t, err, gone)

		o := newOutside()
		o.set(func(o *outside) { o.latency = time.Hour })
		busy := runLoop(t, "manual:1", o, claim.Config{})
		ctx, stop := context.WithTimeoutCause(t.Context(), time.Minute, gone)
		defer stop()
		_, err = busy.Claim(ctx)
		require.ErrorIs(t, err, gone)
	})
}

func TestTheGateHoldsClaimsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 1)
		var asked atomic.Int64
		var full atomic.Bool
		full.Store(true)
		logger, book := logBook()
		l := runLoop(t, "manual:1", o, claim.Config{Logger: logger, Gate: func(context.Context, string) error {
			switch n := asked.Add(1); {
			case n == 2:
				panic("no such disk")
			case full.Load():
				return errors.New("the disk is full")
			}
			return nil
		}})
		time.Sleep(time.Minute)
		require.Empty(t, o.asks("manual"))
		require.Greater(t, asked.Load(), int64(5))
		require.EqualValues(t, asked.Load(), l.Stats().HeldBack)
		require.Equal(t, 1, l.pool.Counts().Open, "no slot is held for a claim that is not made")

		full.Store(false)
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"r1"}, o.runs("manual"))
		text := book()
		require.Equal(t, 2, strings.Count(text, "the disk is full"), "before and after the panic")
		require.Contains(t, text, "the gate panics: no such disk")
		require.Equal(t, 1, strings.Count(text, "no longer held back"))
	})
}

// Guards against a worker that calls the server silent, hours after a claim that failed, which it has asked nothing since.
func TestAGateThatHoldsClaimsBackSaysNothingOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		var full atomic.Bool
		l := runLoop(t, "manual:1", o, claim.Config{Gate: func(context.Context, string) error {
			if full.Load() {
				return errors.New("the disk is full")
			}
			return nil
		}})
		o.set(func(o *outside) {
			o.answer = func(claim.Request) ([]claim.Run, error) { return nil, errors.New("no") }
		})
		time.Sleep(time.Minute)
		require.NotZero(t, l.Stats().Failing)
		full.Store(true)
		time.Sleep(time.Minute)
		require.Zero(t, l.Stats().Failing)
	})
}

// Guards against a worker that looks idle because its gate does not return.
func TestAGateThatDoesNotAnswerIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		runLoop(t, "manual:1", newOutside(), claim.Config{Logger: logger, Gate: func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		time.Sleep(59 * time.Second)
		require.Empty(t, book())
		time.Sleep(time.Hour)
		require.Equal(t, 1, strings.Count(book(), "the gate has not answered"))
	})
}

func TestARunKnowsTheWakeUpThatItsClaimAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.latency = 50 * time.Millisecond
		l := runLoop(t, "manual:2", o, claim.Config{})
		time.Sleep(500 * time.Millisecond)
		o.enqueue("manual", 3)
		woken := time.Now()
		l.Wake()
		time.Sleep(10 * time.Millisecond) // the claim is in flight
		second := time.Now()
		l.Wake() // both are answered by a claim of their own
		l.Wake()
		time.Sleep(time.Second)

		require.Len(t, o.starts(), 2)
		first := o.starts()[0].run
		require.Equal(t, woken, first.Woken)
		require.Equal(t, woken.Add(50*time.Millisecond), first.Claimed)
		require.Equal(t, second, o.starts()[1].run.Woken)
		require.Equal(t, uint64(3), l.Stats().Wakes)
		require.Equal(t, uint64(1), l.Stats().Coalesced)

		l.Wake() // while it is full: the run waits for a slot, not for the server
		time.Sleep(time.Minute)
		o.finish(first.ID)
		time.Sleep(time.Second)
		require.Len(t, o.starts(), 3)
		require.True(t, o.starts()[2].run.Woken.IsZero())
	})
}

// Guards against a caller who is told of nothing while a run was started.
func TestAClaimOnRequestTellsOfARunThatCameTooOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.set(func(o *outside) {
			o.answer = func(claim.Request) ([]claim.Run, error) { return []claim.Run{{ID: "again"}}, nil }
		})
		pool := slots.NewPool(slots.Group{Name: "manual", Queues: []string{"manual"}, Slots: 7})
		l := claim.NewLoop(claim.Config{Pool: pool, Claimer: o, Starter: o, Options: claim.Options{Manual: true}})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { l.Run(ctx, t.Context()); ended <- nil }()
		defer func() { end(); <-ended }()
		time.Sleep(time.Second)
		for i := range 6 {
			brought, err := l.Claim(ctx)
			require.NoError(t, err)
			require.Equal(t, i+1, pool.Counts().Running)
			require.True(t, brought, "claim %d started a run", i+1)
		}
	})
}

// Guards against a claim after the stop, by a loop whose gate was asked before it.
func TestAGateThatOpensAfterTheStopLetsNoClaimThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.enqueue("manual", 1)
		l := runLoop(t, "manual:1", o, claim.Config{Gate: func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return nil
		}})
		l.endIntake()
		require.True(t, l.ended(t))
		require.Empty(t, o.asks("manual"))
		require.Equal(t, 1, l.pool.Counts().Open)
	})
}

// Guards against a caller who is held up by a claim that is in flight.
func TestClaimEndsWithItsContextWhileItIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.set(func(o *outside) { o.latency = time.Hour })
		l := runLoop(t, "manual:1", o, claim.Config{Options: claim.Options{Manual: true}})
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := l.Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(begin))
		require.Len(t, o.asks("manual"), 1, "it goes on")
	})
}

// Guards against a loop that has decided to claim while the server was away, and does so
// when it is back, whatever was decided since.
func TestWhatIsDecidedWhileTheServerIsAwayHolds(t *testing.T) {
	var full atomic.Bool
	changes := map[string]func(t *testing.T, l *rig){
		"paused":  func(_ *testing.T, l *rig) { l.Pause() },
		"resized": func(_ *testing.T, l *rig) { l.pool.Resize(1) },
		"gated":   func(*testing.T, *rig) { full.Store(true) },
		"stopped": func(_ *testing.T, l *rig) { l.endIntake() },
		"asked, and given up": func(t *testing.T, l *rig) {
			l.Pause()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			brought, err := l.Claim(ctx)
			require.False(t, brought)
			if l.pool.Counts().Open > 0 { // else there is nothing to wait for
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
		},
	}
	for first, one := range changes {
		for second, other := range changes {
			t.Run(first+", "+second, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					full.Store(false)
					o := newOutside()
					o.enqueue("manual", 1)
					l := runLoop(t, "manual:2", o, claim.Config{Gate: func(context.Context, string) error {
						if full.Load() {
							return errors.New("the disk is full")
						}
						return nil
					}})
					require.Equal(t, []string{"r1"}, o.runs(""))
					back := o.leave()
					time.Sleep(time.Hour)
					o.enqueue("manual", 1)
					l.Wake()
					claims := len(o.asks("manual"))
					require.Equal(t, claim.Unready, l.Stats().State)
					require.Zero(t, l.pool.Counts().Claimed, "no slot is kept meanwhile")
					one(t, l)
					time.Sleep(time.Hour)
					other(t, l)
					back()
					time.Sleep(time.Hour)
					require.Len(t, o.asks("manual"), claims)
				})
			})
		}
	}
}

func TestTheEndOfAnOutageIsFollowedByAClaimAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		l := runLoop(t, "manual:2", o, claim.Config{})
		back := o.leave()
		time.Sleep(time.Hour)
		woken := time.Now()
		l.Wake()
		o.enqueue("manual", 1)
		time.Sleep(time.Minute)
		require.Len(t, o.asks("manual"), 1)
		back()
		synctest.Wait()
		require.Equal(t, time.Hour+time.Minute, o.asks("manual")[1])
		require.Equal(t, woken, o.starts()[0].run.Woken, "the wake-up is not forgotten")
	})
}

// The server may leave in the very moment in which the claim is put.
func TestAClaimThatWasNotSentIsMadeWhenTheServerIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		var back func()
		o.set(func(o *outside) {
			o.answer = func(claim.Request) ([]claim.Run, error) {
				away := make(chan struct{})
				o.unready, o.answer = away, nil
				back = func() {
					o.set(func(o *outside) { o.unready = nil })
					close(away)
				}
				return nil, claim.ErrNotReady
			}
		})
		l := runLoop(t, "manual:2", o, claim.Config{Options: claim.Options{Manual: true}, Logger: logger})
		brought := make(chan bool)
		go func() {
			got, err := l.Claim(t.Context())
			if err != nil {
				t.Error(err)
			}
			brought <- got
		}()
		time.Sleep(time.Hour)
		require.Len(t, o.asks("manual"), 1)
		o.enqueue("manual", 1)
		back()
		require.True(t, <-brought, "whoever asked is told of the one that was put")
		require.Len(t, o.asks("manual"), 2)
		require.Equal(t, uint64(1), l.Stats().Claims.Total(), "what was not sent does not count")
		require.Zero(t, l.Stats().Claims.Failed)
		require.Empty(t, book())
	})
}

// Guards against somebody who waits for a connection, to be told that there is no slot.
func TestAClaimWithoutASlotIsAnsweredWhileTheClaimerIsNotReady(t *testing.T) {
	for name, paused := range map[string]bool{"in a loop": false, "on request": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutside()
				o.enqueue("manual", 1)
				l := runLoop(t, "manual:1", o, claim.Config{Options: claim.Options{Manual: paused}})
				_, err := l.Claim(t.Context())
				require.NoError(t, err)
				require.Equal(t, []string{"r1"}, o.runs("manual"))
				asks := len(o.asks("manual"))

				o.set(func(o *outside) { o.unready = make(chan struct{}) })
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				brought, err := l.Claim(ctx)
				require.NoError(t, err)
				require.False(t, brought)

				o.finish("r1")
				_, err = l.Claim(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded, "with a slot it waits")
				require.Len(t, o.asks("manual"), asks)
			})
		})
	}
}

// Guards against a loop that spins with a Claimer that contradicts itself.
func TestAClaimerThatIsReadyAndSendsNothingIsAskedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.answer = fails(claim.ErrNotReady)
		l := runLoop(t, "manual:2", o, claim.Config{})
		time.Sleep(time.Hour)
		require.LessOrEqual(t, len(o.asks("manual")), 420)
		brought, err := l.Claim(t.Context())
		require.NoError(t, err)
		require.False(t, brought)
	})
}

// A gate may take its time, and what was decided meanwhile holds.
func TestWhatIsDecidedWhileTheGateIsAskedHolds(t *testing.T) {
	for name, change := range map[string]func(l *rig){
		"paused": func(l *rig) { l.Pause() }, "resized": func(l *rig) { l.pool.Resize(0) }, "stopped": func(l *rig) { l.endIntake() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutside()
				l := runLoop(t, "manual:1", o, claim.Config{Gate: func(context.Context, string) error {
					time.Sleep(time.Second)
					return nil
				}})
				change(l)
				time.Sleep(time.Hour)
				require.Empty(t, o.asks("manual"))
			})
		})
	}
}

// Guards against a claim for someone who has gone while the gate was asked.
func TestAClaimIsGivenUpWhileTheGateIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		l := runLoop(t, "manual:1", o, claim.Config{Options: claim.Options{Manual: true}, Gate: func(context.Context, string) error {
			time.Sleep(time.Minute)
			return nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := l.Claim(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Hour)
		require.Empty(t, o.asks("manual"))
	})
}
