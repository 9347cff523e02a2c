package owned

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhoMayWriteIntoAFolder(t *testing.T) {
	tests := []struct {
		name  string
		mode  os.FileMode
		group int
		want  bool
	}{
		{"its owner alone", 0o755, 12345, false},
		{"all", 0o777, 0, true},
		{"all, but not take away what is another's", 0o777 | os.ModeSticky, 0, true},
		{"a group", 0o775, 12345, true},
		{"the owner's own group", 0o775, os.Geteuid(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Chmod(dir, tt.mode))
			if err := os.Chown(dir, -1, tt.group); err != nil && tt.group != 0 {
				t.Skip("only root can give a folder to any group")
			}
			info, err := os.Stat(dir)
			require.NoError(t, err)
			require.Equal(t, os.Geteuid(), By(info))
			require.Equal(t, tt.want, WrittenByOthers(dir, info))
		})
	}
}

// Guards against warnings about volumes, which Kubernetes mounts with mode 0777.
func TestAMountPointIsNobodyElses(t *testing.T) {
	const shared = "/dev/shm"
	info, err := os.Stat(shared)
	if err != nil || info.Mode().Perm() != 0o777 {
		t.Skip(shared + " is not where all may write")
	}
	above, err := os.Stat(filepath.Dir(shared))
	require.NoError(t, err)
	if os.SameFile(info, above) || ChangedBy(filepath.Dir(shared)) != "" {
		t.Skip(shared + " is no mount point")
	}
	require.False(t, WrittenByOthers(shared, info))
	require.Empty(t, ChangedBy(shared))
	t.Setenv("TMPDIR", shared)
	below := t.TempDir()
	require.Empty(t, ChangedBy(below))
	require.NoError(t, os.Chmod(below, 0o777))
	require.Equal(t, below, ChangedBy(below), "what is in it is judged")
}
