package command

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
)

func TestAFloodOfPrintedLinesIsCutOff(t *testing.T) {
	w := newWire(t, "ready", Config{})
	record := w.job("flood 40", `ok {"x":1}`)
	requireEnd(t, record, "success", "", "")
	printed := logLines(t, record, "OUT")
	require.Equal(t, `"(over 1048576 bytes were printed; the rest is left out)"`, printed[len(printed)-1])
	require.LessOrEqual(t, len(printed), maxPrinted/(1023+lineCost)+1)
}

func TestALineWithoutEndIsCutOff(t *testing.T) {
	w := newWire(t, "ready", Config{MaxLine: 1 << 20})
	record := w.job("long 3", "say next", "ok {}")
	requireEnd(t, record, "success", "", "")
	require.Equal(t, []string{`"` + strings.Repeat("x", maxOutput) + `"`, `"next"`}, logLines(t, record, "OUT"))
}

func TestAMessageOverTheLimitEndsTheRun(t *testing.T) {
	w := newWire(t, "ready", Config{MaxLine: 1 << 20})
	requireEnd(t, w.job("longlog 1", "deaf"), "crash", "ExecutionError", "The engine sent a message of more than 1048576 bytes")
	requireEnd(t, w.job("ok {}"), "success", "", "")
}

// While the server does not take the run's events, what a process says stays with
// the process; and the run can be stopped.
func TestAFloodIsHeldBackWhileTheServerTakesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of text, which the race detector reads slowly")
	}
	w := newWire(t, "ready", Config{CancelGrace: -1}) // without a word
	_, err := w.Server.AddFault(fault.Rule{Event: "run:log", Action: fault.Withhold, Skip: 6, Count: 1})
	require.NoError(t, err)
	counter := filepath.Join(t.TempDir(), "count")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	f := w.start(ctx, runner.Limits{}, oneJob("who", "floodlog "+counter))
	written := func() int {
		data, _ := os.ReadFile(counter)
		n, _ := strconv.Atoi(string(data))
		return n
	}
	require.Eventually(t, func() bool { return written() > 15<<20 }, patient, time.Millisecond)
	pid := pidOf(t, f.awaitLine(0))
	cancel(&runner.Failure{Reason: runner.Cancel, Type: "Stop", Message: "enough"})
	requireGone(t, pid)
	require.Less(t, written(), 20<<20, "the outbox has 16 MiB, the pipe less than one")
	require.NoError(t, w.Server.Kick(fault.Abnormal)) // the reply comes no more
	requireEnd(t, f.wait(), "cancel", "Stop", "enough")
}

func TestTheMemoryOfDescendantsCounts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory is watched on Linux only")
	}
	w := newWire(t, "ready", Config{})
	record := w.start(t.Context(), runner.Limits{MemoryMB: 60}, oneJob("feed 150", "hang")).wait()
	requireEnd(t, record, "kill", "OOMError", "Run exceeded maximum memory usage")
	requireGone(t, pidOf(t, logLines(t, record, "JOB")[0]))
}

func TestTheTailOfStderrIsBounded(t *testing.T) {
	var end tail
	for range 10_000 {
		end.add([]byte("a line of stderr\n"))
	}
	last := end.since(0)
	require.LessOrEqual(t, len(last), maxTail)
	require.Greater(t, len(last), maxTail-100)
	require.True(t, strings.HasPrefix(string(last), "a line"), "it begins with a line")
	require.Equal(t, "a line of stderr", tellingLine(last))
	require.LessOrEqual(t, cap(end.last), 4*maxTail)
}
