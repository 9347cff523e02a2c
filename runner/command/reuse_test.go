package command

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
)

func TestAProcessIsReused(t *testing.T) {
	w := newWire(t, "ready", Config{Runs: 3})
	pids := map[int]int{}
	for i := range 7 {
		pid, run := who(t, w.job("who", "stderr of the past", "ok {}"))
		pids[pid]++
		require.Equal(t, strconv.Itoa(i%3+1), run)
	}
	require.Len(t, pids, 3)
}

// Guards against a run that takes what a later one of somebody else is given: what it
// has left in its process is only there for runs of its own project.
func TestAProcessIsReusedByItsOwnersRunsOnly(t *testing.T) {
	const a, b = `"project_id":"a"`, `"project_id":"b"`
	inMeta := func(project string) string { return `"meta":{"project_id":"` + project + `","workflow_id":"w"}` }
	tests := []struct {
		name string
		runs [][2]string // whose, and what it finds
	}{
		{name: "projects that take turns", runs: [][2]string{{a, ""}, {b, ""}, {a, ""}, {a, "x"}, {b, ""}, {b, "x"}}},
		{name: "named in the plan's meta", runs: [][2]string{{inMeta("a"), ""}, {inMeta("b"), ""}, {inMeta("b"), "x"}, {b, "xx"}}},
		{name: "workflows without a project", runs: [][2]string{{`"meta":{"workflow_id":"w"}`, ""}, {`"meta":{"workflow_id":"v"}`, ""}, {`"meta":{"workflow_id":"v"}`, "x"}}},
		{name: "a workflow called like a project", runs: [][2]string{{a, ""}, {`"meta":{"workflow_id":"a"}`, ""}}},
		{name: "nobody's", runs: [][2]string{{`"project_id":""`, ""}, {`"project_id":""`, ""}, {`"meta":"w"`, ""}, {`"meta":{"project_id":1}`, ""}, {a, ""}}},
	}
	for _, spares := range []int{2, 0} {
		if spares == 0 && testing.Short() {
			continue // the same, with a process for each first run
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				w := newWire(t, "ready", Config{Runs: 10, Spares: spares})
				for i, run := range tt.runs {
					found := logLines(t, w.jobOf(run[0], "leave x", "ok {}"), "JOB")
					require.Equal(t, []string{strconv.Quote(run[1])}, found, "run %d", i)
				}
			})
		}
	}
}

// Guards against a process that is kept for each project there ever was.
func TestProcessesOfOtherOwnersAreNotKeptBesides(t *testing.T) {
	w := newWire(t, "ready", Config{Runs: 10, CancelGrace: -1})
	ended := map[int]bool{}
	for i := range 5 {
		pid, _ := who(t, w.jobOf(`"project_id":"`+strconv.Itoa(i)+`"`, "who", "ok {}"))
		awaitIdle(t, w.engine.pool, 1)
		for before := range ended {
			requireGone(t, before)
		}
		ended[pid] = true
	}
	require.Len(t, ended, 5)
}

// Guards against processes that find no host any more: the kernel leaves them the files that were
// there when they started, and a resolver's settings are written beside the old ones, and renamed.
func TestAProcessEndsWhenItsSettingsWereReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	replace := func() {
		require.NoError(t, os.WriteFile(file+".new", nil, 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	for name, cfg := range map[string]Config{"reused": {Runs: 10}, "spare": {Spares: 1}} {
		t.Run(name, func(t *testing.T) {
			replace()
			cfg.Settings = []string{file, file + ".none"}
			w := newWire(t, "ready", cfg)
			require.Equal(t, "success", w.job("ok {}").Reason)
			kept := awaitIdle(t, w.engine.pool, 1)[0].cmd.Process.Pid
			require.NoError(t, os.WriteFile(file, []byte("nameserver ::1\n"), 0o600)) // the same file
			pid, _ := who(t, w.job("who", "ok {}"))
			require.Equal(t, kept, pid)
			kept = awaitIdle(t, w.engine.pool, 1)[0].cmd.Process.Pid
			replace()
			pid, _ = who(t, w.job("who", "ok {}"))
			require.NotEqual(t, kept, pid)
			require.NotEqual(t, kept, awaitIdle(t, w.engine.pool, 1)[0].cmd.Process.Pid)
		})
	}
}

// Two runs at once, of two projects: each process goes to the run that waits for it.
func TestAProcessThatIsFreedGoesToARunThatItFits(t *testing.T) {
	used, fresh := &process{runs: 1, owner: "a"}, &process{}
	wait := func(owner string) *waiter { return &waiter{owner: owner, granted: make(chan grant, 1)} }
	other, own := wait("b"), wait("a")
	p := &Pool{waiting: []*waiter{other, own}, runs: 2}
	p.place(used)
	require.Same(t, used, (<-own.granted).proc)
	p.place(used)
	require.Equal(t, []*process{used}, p.idle, "it fits nobody who waits")
	p.place(fresh)
	require.Same(t, fresh, (<-other.granted).proc)
	require.Empty(t, p.waiting)
}

func TestAReusedProcessKeepsNothingOfARun(t *testing.T) {
	w := newWire(t, "ready", Config{Runs: 3})
	require.Equal(t, "success", w.job("stderr secret of the first", "ok {}").Reason)
	record := w.job("stderr of the second", "exit 1")
	require.Empty(t, logLines(t, record, "ERR"), "nobody can tell the two runs' lines apart")
}

// Guards against a heap that is full and not known for it, because whoever says
// what a death means is not told what the process said.
func TestADeathIsJudgedByWhatItsOwnRunSaid(t *testing.T) {
	var said string
	w := newWire(t, "ready", Config{Runs: 3, Died: func(exit Exit) *runner.Failure {
		said = string(exit.Stderr)
		return nil
	}})
	require.Equal(t, "success", w.job("stderr of the first", "ok {}").Reason)
	awaitIdle(t, w.engine.pool, 1)
	require.Eventually(t, func() bool { return w.engine.pool.idle[0].tail.written() > 0 }, patient, time.Millisecond)
	require.Equal(t, "crash", w.job("stderr of the second", "exit 1").Reason)
	require.Equal(t, "of the second\n", said)
}

func TestAProcessThatSpeaksOutOfTurnIsNotReused(t *testing.T) {
	tests := []struct {
		name   string
		script []string
	}{
		{name: "a second end", script: []string{`twice {"type":"end","reason":"crash"}`}},
		{name: "a message", script: []string{`twice {"type":"log","message":[]}`}},
		{name: "a late end", script: []string{`late {"type":"end","reason":"crash"}`, "ok {}"}},
		{name: "a death", script: []string{"ok {}", "exit 1"}},
	}
	w := newWire(t, "ready", Config{Runs: 10})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pid, _ := who(t, w.job(append([]string{"who"}, tt.script...)...))
			requireGone(t, pid)
			awaitIdle(t, w.engine.pool, 0)
			next, run := who(t, w.job("who", "ok {}"))
			require.NotEqual(t, pid, next)
			require.Equal(t, "1", run)
		})
	}
}
