package chaos

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	oneSeed = flag.Uint64("seed", 0, "test this seed only")
	seeds   = flag.Uint64("seeds", 130, "how many seeds to test, from 1 on; -short makes it a fifth")
	runs    = flag.Int("runs", 80, "how many runs a seed has; with the default number of seeds a little over 10,000")
	soak    = flag.Int("soak", 0, "how many runs TestSoak takes through the weather")
)

// Whatever the weather, each run ends exactly once at the server, with the right
// reason, each of its steps and lines in their place; or the workers say what
// they had to give up of it, and something that the server did was the cause.
func TestChaos(t *testing.T) {
	from, count := uint64(1), *seeds
	if testing.Short() {
		count = max(1, count/5)
	}
	if *oneSeed != 0 {
		from, count = *oneSeed, 1
	}
	files := openFiles(t)
	var total tally
	for seed := from; seed < from+count; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			total.add(weather(t, seed, *runs))
		})
	}
	require.LessOrEqual(t, openFiles(t), files, "files or connections were left open")
	t.Log(total.String())
}

// weather takes runs through the weather of a seed, in a bubble; a goroutine that
// outlives the bubble fails the test.
func weather(t *testing.T, seed uint64, runs int) (total tally) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("this seed again: go test ./internal/chaos -run 'TestChaos$' -count 5 -seed %d -runs %d", seed, runs)
		}
	}()
	synctest.Test(t, func(t *testing.T) { total = live(t, newSchedule(seed, runs)).verdict() })
	return total
}

// TestSoak is `make soak`: it goes on for as many runs as it is told to, and
// holds the process to the memory that it had after the first tenth.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("for make soak")
	}
	const each = 500
	rounds := max(10, *soak/each)
	var total tally
	var heap uint64
	var goroutines int
	for round := range rounds {
		total.add(weather(t, uint64(1_000_000+round), each))
		require.False(t, t.Failed(), "seed %d", 1_000_000+round)
		if (round+1)%(rounds/10) != 0 {
			continue
		}
		now := heapInUse()
		t.Logf("%d runs: %d KiB of heap, %d goroutines", total.runs, now>>10, runtime.NumGoroutine())
		if heap == 0 {
			heap, goroutines = now, runtime.NumGoroutine()
		}
		require.Less(t, now, heap+heap/2+4<<20, "the heap grows")
		require.LessOrEqual(t, runtime.NumGoroutine(), goroutines, "goroutines were left behind")
	}
	t.Log(total.String())
}

// heapInUse is what is still referred to.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// openFiles counts the descriptors of the process; 0 where it cannot. Those of the
// poller are opened with the first pipe, and stay.
func openFiles(t *testing.T) int {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.NoError(t, w.Close())
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Logf("open files are not counted here: %v", err)
	}
	return len(entries)
}
