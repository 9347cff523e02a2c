package claim_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
)

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
			_, err := l.Claim(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
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
					require.Equal(t, claim.Unready, l.State())
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
