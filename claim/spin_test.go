package claim_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

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
		go func() { done <- loop.Run(counted, t.Context()) }()
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
