package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Guards against a release that is refused, for want of a version or of a commit,
// after the last one was deleted.
func TestARefusedReleaseKeepsTheLastOne(t *testing.T) {
	program, err := exec.LookPath("make")
	if err != nil {
		t.Skip("make is not installed")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Makefile"), []byte(read(t, "../Makefile")), 0o600))
	for _, name := range []string{"deploy", "dist"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	last := filepath.Join(dir, "dist", "SHA256SUMS")
	require.NoError(t, os.WriteFile(last, nil, 0o600))
	release := func(tool string) error {
		return exec.CommandContext(t.Context(), program, "-C", dir, "release", "GO="+tool).Run()
	}
	require.Error(t, release("false"))
	require.FileExists(t, last)

	// One that is made takes its place.
	tool := filepath.Join(dir, "go")
	require.NoError(t, os.WriteFile(tool, []byte("#!/bin/sh\nfor out; do :; done\nmkdir \"$out\"\n"), 0o700))
	require.NoError(t, release(tool))
	require.DirExists(t, filepath.Dir(last))
	require.NoFileExists(t, last)
}
