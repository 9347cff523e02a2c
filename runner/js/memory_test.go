package js

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// What a run allocates outside the Go heap is freed with it, however it ends.
func TestMemoryStaysFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds, and the race detector, for which tests are short, has memory of its own")
	}
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		t.Skip("this system does not tell how much memory a process has")
	}
	jobs := []string{
		typicalJob,
		`fn(() => { throw new Error('no'); })`,
		`fn(s => { setTimeout(() => {}, 1e6); Promise.reject(new Error('floating')); return s; })`,
		`fn(s => new Promise(() => { process.exit(); }))`,
		`fn(async s => { await new Promise(r => setTimeout(r, 0)); return { ...s, at: String(new Date()) }; })`,
		`fn(s => { const a = []; for (;;) a.push({}); })`,
	}
	w := runtest.New(t, New(Config{}))
	execute := func(rounds int) {
		for range rounds {
			for i, body := range jobs {
				limits := runner.Limits{}
				if i == len(jobs)-1 {
					limits.MemoryMB = 1
				}
				run := runtest.OneJob(body)
				run.Dataclip = []byte(typicalInput)
				w.Run(t.Context(), limits, run)
			}
		}
	}
	execute(100)
	before := residentBytes(t)
	execute(100)
	require.LessOrEqual(t, float64(residentBytes(t)), 1.1*float64(before))
}

func residentBytes(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(string(bytes.Fields(data)[1]))
	require.NoError(t, err)
	return pages * os.Getpagesize()
}
