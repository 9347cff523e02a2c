package cgroup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheFolderOfAGroup(t *testing.T) {
	const (
		unified = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 none rw,nsdelegate\n"
		older   = "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup none rw,memory\n"
		hybrid  = older + "31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n"
		within  = "30 24 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	)
	for _, tt := range []struct{ name, mounts, groups, want, problem string }{
		{name: "a service", mounts: unified, groups: "0::/system.slice/phxworker.service\n", want: "/sys/fs/cgroup/system.slice/phxworker.service"},
		{name: "a container with groups of its own", mounts: unified, groups: "0::/\n", want: "/sys/fs/cgroup"},
		{name: "a container with those of all", mounts: within, groups: "0::/docker/abc/x\n", want: "/sys/fs/cgroup/x"},
		{name: "both versions", mounts: hybrid, groups: "4:memory:/a\n0::/b\n", want: "/sys/fs/cgroup/unified/b"},
		{name: "the first version", mounts: older, groups: "4:memory:/a\n", problem: "control groups of version 2 are not mounted here"},
		{name: "in no group", mounts: unified, groups: "4:memory:/a\n", problem: "the worker is in no control group of version 2"},
		{name: "another container's", mounts: within, groups: "0::/docker/abcd\n", problem: "the group of the worker, /docker/abcd, is not among those that are mounted at /sys/fs/cgroup"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := own(tt.mounts, tt.groups)
			if tt.problem != "" {
				require.EqualError(t, err, tt.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, dir)
		})
	}
}

// Guards against groups beside that of the worker, out of what was delegated to it, for people give the worker's
// group its name.
func TestAGroupWithTheNameOfTheWorkerIsNoLeaf(t *testing.T) {
	require.Equal(t, "/sys/fs/cgroup/phxworker", outOfLeaf("/sys/fs/cgroup/phxworker"))
	require.Equal(t, "/sys/fs/cgroup/x", outOfLeaf("/sys/fs/cgroup/x/"+leaf))
}

func TestKilledForMemory(t *testing.T) {
	require.True(t, killed([]byte("low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\n")))
	require.False(t, killed([]byte("low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\noom_group_kill 0\n")))
}

// Where there are no groups, nothing happens.
func TestNoGroups(t *testing.T) {
	var none *Parent
	group, err := none.New()
	require.NoError(t, err)
	require.Nil(t, group)
	require.NoError(t, group.Limit(1))
	require.False(t, group.Exceeded())
	require.NoError(t, group.Remove())
}

// Guards against a check that promises more than a start can keep.
func TestWhatIsCheckedHolds(t *testing.T) {
	if err := Check(); err != nil {
		parent, openErr := Open(0)
		require.Error(t, openErr, "the check says %v", err)
		require.Nil(t, parent)
	}
}
