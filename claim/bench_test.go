package claim_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

// instant is a server that always has a run, and a worker that is done with it at
// once: what is left is the loop.
type instant struct {
	runs []claim.Run
	left int
	stop context.CancelFunc
}

// manyRuns are more than a loop remembers: it would rest if the same came again and again.
func manyRuns(b *testing.B, k key) []claim.Run {
	b.Helper()
	runs := make([]claim.Run, 1001)
	for i := range runs {
		id := fmt.Sprint("r", i)
		runs[i] = claim.Run{ID: id, Token: k.sign(b, id)}
	}
	return runs
}

func (i *instant) Ready() <-chan struct{} { return always }

func (i *instant) Claim(context.Context, claim.Request) ([]claim.Run, error) {
	if i.left--; i.left <= 0 {
		i.stop()
	}
	at := i.left % len(i.runs)
	return i.runs[at : at+1 : at+1], nil
}

func (i *instant) Start(_ claim.Run, slot *slots.Slot) { slot.Free() }

// BenchmarkCycle is one claim that brings a run, from slot to slot. The baseline
// is the same life of a slot and the same calls with no loop around them.
func BenchmarkCycle(b *testing.B) {
	k := newKey(b)
	many := manyRuns(b, k)

	b.Run("baseline", func(b *testing.B) {
		_, cancel := context.WithCancel(b.Context())
		defer cancel()
		pool := slots.NewPool(slots.Plain(4)[0])
		server := &instant{runs: many, left: b.N, stop: cancel}
		req := claim.Request{Demand: 1, Queues: pool.Group().Queues}
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			slot, _ := pool.Reserve()
			runs, _ := server.Claim(b.Context(), req)
			slot.Fill()
			server.Start(runs[0], slot)
		}
	})
	loop := func(verifier *claim.Verifier) func(*testing.B) {
		return func(b *testing.B) {
			intake, cancel := context.WithCancel(b.Context())
			defer cancel()
			server := &instant{runs: many, left: b.N, stop: cancel}
			l := claim.NewLoop(claim.Config{Pool: slots.NewPool(slots.Plain(4)[0]), Claimer: server, Starter: server, Verifier: verifier})
			b.ReportAllocs()
			b.ResetTimer()
			l.Run(intake, b.Context())
		}
	}
	b.Run("loop", loop(nil))
	b.Run("loop with tokens verified", loop(k.verifier(b)))
}
