package command

import (
	"context"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// patient is how long a test waits for what must happen.
const patient = 2 * time.Minute

// wire is a mock Lightning, the way to it, and an engine of the program.
type wire struct {
	*runtest.Bench

	engine *Engine
}

// newWire returns a wire to an engine whose program starts in this way.
func newWire(t testing.TB, start string, cfg Config) *wire {
	t.Helper()
	if cfg.Args == nil {
		cfg.Args = program(start)
	}
	engine, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	return &wire{Bench: runtest.New(t, engine), engine: engine}
}

// inFlight is a run under way.
type inFlight struct {
	w     *wire
	id    string
	ended chan mockserver.RunRecord
}

// start has the real runner execute a plan. Start no other until it is known to
// be under way.
func (w *wire) start(ctx context.Context, limits runner.Limits, run mockserver.Run) *inFlight {
	w.T.Helper()
	var plan struct{ ID string }
	require.NoError(w.T, json.Unmarshal(run.Plan, &plan))
	f := &inFlight{w: w, id: plan.ID, ended: make(chan mockserver.RunRecord, 1)}
	go func() { f.ended <- w.Run(ctx, limits, run) }()
	return f
}

// wait returns the run as the server recorded it.
func (f *inFlight) wait() mockserver.RunRecord { return <-f.ended }

// awaitLine returns the nth line of a job as soon as the server has it.
func (f *inFlight) awaitLine(n int) string {
	f.w.T.Helper()
	var all []string
	require.Eventually(f.w.T, func() bool {
		record, known := f.w.Server.Inspect(f.id)
		if known {
			all = logLines(f.w.T, record, "JOB")
		}
		return len(all) > n
	}, patient, 2*time.Millisecond)
	return all[n]
}

// job executes a script; see program_test.go.
func (w *wire) job(script ...string) mockserver.RunRecord {
	w.T.Helper()
	return w.jobOf(ofOneProject, script...)
}

// jobOf executes a script whose plan has this member, which says whose it is.
func (w *wire) jobOf(owner string, script ...string) mockserver.RunRecord {
	w.T.Helper()
	return w.Job(strings.Join(script, "\n"), owner)
}

// ofOneProject is the member of a plan that says whose it is, unless a test says otherwise.
const ofOneProject = `"project_id":"p"`

// oneJob returns a run with a plan of one job, "a", that is a script.
func oneJob(script ...string) mockserver.Run {
	return runtest.OneJob(strings.Join(script, "\n"), ofOneProject)
}

// requireEnd asserts how a run ended.
func requireEnd(t testing.TB, record mockserver.RunRecord, reason, errorType, message string) {
	t.Helper()
	require.Equal(t, []string{reason, errorType, message}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
}

func logLines(t testing.TB, record mockserver.RunRecord, source string) []string {
	t.Helper()
	return runtest.Lines(t, record, source)
}

// runsOf returns how many runs the process of a run that says "who" has had.
func runsOf(t *testing.T, record mockserver.RunRecord) string {
	t.Helper()
	return strings.Fields(logLines(t, record, "JOB")[0])[2]
}

// pidOf returns the first value of a line.
func pidOf(t *testing.T, line string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.Fields(line)[0])
	require.NoError(t, err)
	return pid
}

// eventsOf returns the payloads of the events that the server took.
func eventsOf(record mockserver.RunRecord, event string) []json.RawMessage {
	var payloads []json.RawMessage
	for _, e := range record.Events {
		if e.Event == event {
			payloads = append(payloads, e.Payload)
		}
	}
	return payloads
}

// requireGone asserts that a process ends. One that is dead but that init has
// not reaped yet is gone as well.
func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		if syscall.Kill(pid, 0) != nil {
			return true
		}
		stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		_, after, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(after, "Z")
	}, patient, time.Millisecond, "the process %d survives", pid)
}
