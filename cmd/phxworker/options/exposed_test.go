package options

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Guards against adaptors that another user of the machine has put there, which have the
// credentials of runs.
func TestFoldersThatOthersMayWriteIntoAreTold(t *testing.T) {
	base := t.TempDir()
	folder := func(name string, mode os.FileMode) string {
		dir := filepath.Join(base, name)
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.Chmod(dir, mode))
		return dir
	}
	own, open, sticky := folder("own", 0o755), folder("open", 0o777), folder("sticky", 0o777|os.ModeSticky)
	grouped := folder("grouped", 0o775)
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(grouped, 0, 12345))
	}
	link := filepath.Join(base, "link")
	require.NoError(t, os.Symlink(open, link))
	tests := []struct{ name, dir, want string }{
		{"of one's own", own, ""},
		{"to be made in it", filepath.Join(own, "not", "there"), ""},
		{"open to all", open, open},
		{"below an open one", folder("open/inner", 0o755), open},
		{"by way of a link", link, open},
		{"to be made in an open one", filepath.Join(open, "new"), open},
		{"of one's own where all may write", folder("sticky/inner", 0o755), ""},
		{"to be made where all may write", filepath.Join(sticky, "new"), sticky},
		{"where all may write", sticky, sticky},
	}
	if os.Geteuid() == 0 {
		tests = append(tests, struct{ name, dir, want string }{"of a group", grouped, grouped})
		others := folder("others", 0o755)
		require.NoError(t, os.Chown(others, 12345, 12345))
		tests = append(tests, struct{ name, dir, want string }{"of another user", others, others})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, engine := range []string{"auto", "openfn", "js"} {
				var want []Notice
				if tt.want != "" && engine != "js" {
					want = []Notice{{shared, "--repo-dir", "others may write into " + tt.want + ", and what lies there is executed with the credentials of runs: take one that only the worker's user may change"}}
				}
				require.Equal(t, want, read(t, environment{"WORKER_SECRET": "s"}, "--engine", engine, "--repo-dir", tt.dir).Notices, engine)
			}
		})
	}
	require.Len(t, read(t, environment{"WORKER_SECRET": "s"}, "--monorepo-dir", open).Notices, 1)
}
