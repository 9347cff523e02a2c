package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/command/cgroup"
)

// inGroup is the variable of the half of a test that is started in a control group of its own.
const inGroup = "PHXWORKER_TEST_IN_GROUP"

// An engine process that has more than its run may, children counted, is killed by the kernel, and
// no other is; the worker has moved out of their way first, and leaves no groups behind.
func TestTheKernelKeepsEachRunToItsMemory(t *testing.T) {
	dir := os.Getenv(inGroup)
	if dir == "" {
		startInGroup(t)
		return
	}
	parent, err := cgroup.Open(16)
	require.NoError(t, err)
	again, err := cgroup.Open(16)
	require.NoError(t, err, "from within the leaf")
	require.Equal(t, parent, again)
	require.Equal(t, []string{"phxworker-leaf"}, groupsIn(t, dir))

	w := newWire(t, "ready", Config{Cgroups: parent, Runs: 2})
	file := filepath.Join(t.TempDir(), "go on")
	other := w.start(t.Context(), runner.Limits{MemoryMB: 300}, oneJob("who", "eat 20", "until "+file, "ok {}"))
	other.awaitLine(0) // it is under way
	for _, script := range []string{"eat 200", "feed 200"} {
		record := w.start(t.Context(), runner.Limits{MemoryMB: 60}, oneJob("who", script, "hang")).wait()
		requireEnd(t, record, "kill", "OOMError", "Run exceeded maximum memory usage")
		requireGone(t, pidOf(t, logLines(t, record, "JOB")[0]))
	}
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	requireEnd(t, other.wait(), "success", "", "")
	requireEnd(t, w.start(t.Context(), runner.Limits{MemoryMB: 60}, oneJob("exit 3")).wait(), "crash", "ExitError", "Process exited with code: 3")
	require.NoError(t, w.engine.Close())
	require.Equal(t, []string{"phxworker-leaf"}, groupsIn(t, dir))
}

// startInGroup starts the test again, in a group that it may do with as it likes.
func startInGroup(t *testing.T) {
	const root = "/sys/fs/cgroup"
	dir, err := os.MkdirTemp(root, "phxworker-test-*") //nolint:usetesting // not among temporary files
	if err != nil {
		t.Skip("no control group can be made on this machine: " + err.Error())
	}
	defer func() { require.NoError(t, os.Remove(dir)) }()
	defer func() { _ = os.Remove(filepath.Join(dir, "phxworker-leaf")) }()
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil || !slices.Contains(strings.Fields(string(controllers)), "memory") {
		t.Skip("the control groups of this machine (version 2) have no memory controller")
	}
	folder, err := os.Open(dir)
	require.NoError(t, err)
	defer folder.Close()
	half := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	half.Env = append(os.Environ(), inGroup+"="+dir)
	half.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(folder.Fd())}
	out, err := half.CombinedOutput()
	require.NoError(t, err, string(out))
}

func groupsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names
}
