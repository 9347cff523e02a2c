package command

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheMemoryOfAProcessIsMeasured(t *testing.T) {
	group := newGroupMemory(os.Getpid(), t.TempDir())
	before := group.resident()
	require.Positive(t, before)
	require.Positive(t, group.proportional())
	held := eat("64")
	require.Greater(t, group.resident(), before+(60<<20))
	require.Greater(t, group.proportional(), int64(len(held)))
}

func TestKinAreOfTheGroupOrTheFolder(t *testing.T) {
	require.Empty(t, kin(0, t.TempDir()))
	require.Contains(t, kin(syscall.Getpgrp(), t.TempDir()), os.Getpid())
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, []int{os.Getpid()}, kin(0, here))
	require.Empty(t, kin(0, here[:len(here)-1]), "a folder whose name begins alike")
}

// BenchmarkKin shows what it costs to look for descendants among the processes of
// this machine.
func BenchmarkKin(b *testing.B) {
	tmp := b.TempDir()
	b.ReportAllocs()
	for b.Loop() {
		kin(0, tmp)
	}
	names, err := os.ReadDir("/proc")
	require.NoError(b, err)
	b.ReportMetric(float64(len(names)), "entries")
}
