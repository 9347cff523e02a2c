package claim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

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
		require.NoError(t, loop.Run(over, t.Context()))
		require.NoError(t, loop.Run(t.Context(), over))
		require.Empty(t, o.requests())
	})
}

func TestAStopWhileTheServerIsAwayIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		back := o.leave()
		l := runLoop(t, "manual:1", o, claim.Config{Logger: logger})
		require.Equal(t, claim.Unready, l.State())
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

func TestALoopRunsOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		l := runLoop(t, "manual:1", o, claim.Config{})
		require.ErrorIs(t, l.Run(t.Context(), t.Context()), claim.ErrRunning)
		require.Len(t, o.requests(), 1)
	})
}
