package claim_test

import (
	"context"
	"fmt"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

// queue is a server with two runs to give away.
type queue []claim.Run

// Ready says that there is no time at which it could not be asked.
func (q *queue) Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

func (q *queue) Claim(_ context.Context, req claim.Request) ([]claim.Run, error) {
	fmt.Println("claim", req.Demand, "of", req.Queues)
	n := min(req.Demand, len(*q))
	runs := (*q)[:n]
	*q = (*q)[n:]
	return runs, nil
}

// printer is done with a run as soon as it has said so.
type printer struct{ last context.CancelFunc }

func (p printer) Start(run claim.Run, slot *slots.Slot) {
	defer slot.Free()
	fmt.Println("run", run, "in", slot.Group().Name)
	if run.ID == "b" {
		p.last()
	}
}

func Example() {
	intake, stop := context.WithCancel(context.Background())
	defer stop()

	loop := claim.NewLoop(claim.Config{
		Pool:    slots.NewPool(slots.Plain(5)[0]),
		Claimer: &queue{{ID: "a"}, {ID: "b"}},
		Starter: printer{last: stop},
	})
	loop.Run(intake, context.Background())
	stats := loop.Stats()
	fmt.Println(stats.Claims.Total(), "claims,", stats.Started, "runs")
	// Output:
	// claim 1 of [manual *]
	// run a in manual>*
	// claim 1 of [manual *]
	// run b in manual>*
	// 2 claims, 2 runs
}

func ExampleNewVerifier() {
	_, err := claim.NewVerifier("-----BEGIN RSA PRIVATE KEY-----\n-----END RSA PRIVATE KEY-----")
	fmt.Println(err)
	// Output: public key for run tokens: it is a private key, which must not leave Lightning; give the RSA public key as PEM, or that PEM in base64 (Lightning's WORKER_LIGHTNING_PUBLIC_KEY)
}
