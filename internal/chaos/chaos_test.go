package chaos

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	oneSeed = flag.Uint64("seed", 0, "test this seed only")
	first   = flag.Uint64("first", 1, "the first of the seeds")
	seeds   = flag.Uint64("seeds", 125, "how many seeds to test")
)

const runsPerSeed = 80

func TestChaos(t *testing.T) {
	from, count := *first, *seeds
	if *oneSeed != 0 {
		from, count = *oneSeed, 1
	}
	var total tally
	for seed := from; seed < from+count; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := live(t, newSchedule(seed, runsPerSeed))
				total.add(w.verdict())
			})
			if t.Failed() {
				t.Logf("again: go test ./internal/chaos -run 'TestChaos$' -count 5 -seed %d", seed)
			}
		})
	}
	t.Log(total.String())
}
