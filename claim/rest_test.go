package claim_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

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
			running.Go(func() { _ = loop.Run(intake, work) })
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
