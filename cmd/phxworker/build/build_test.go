package build

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	platform := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	vcs := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abcdef0123456789"}, {Key: "vcs.time", Value: "2026-11-20T08:30:00Z"}, {Key: "vcs.modified", Value: modified},
		}}
	}
	tests := []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"nothing is known", nil, "dev (" + platform},
		{"no version control", &debug.BuildInfo{}, "dev (" + platform},
		{"a commit", vcs("false"), "dev (commit abcdef0, 2026-11-20, " + platform},
		{"changed files", vcs("true"), "dev (commit abcdef0-dirty, 2026-11-20, " + platform},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, read(tt.info).String()) })
	}
}

// Guards the name that releases set: the linker says nothing of one that is not
// there.
func TestVersionIsSetByTheLinker(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the linker does")
	}
	binary := filepath.Join(t.TempDir(), "phxworker")
	const name = "github.com/phxworker/phxworker/cmd/phxworker/build.version"
	output, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w -X "+name+"=v1.2.3", "-o", binary, "..").CombinedOutput()
	require.NoError(t, err, string(output))
	output, err = exec.CommandContext(t.Context(), binary, "--version").CombinedOutput()
	require.NoError(t, err, string(output))
	require.Regexp(t, `^phxworker version v1\.2\.3 \((commit [0-9a-f]{7}(-dirty)?, \d{4}-\d\d-\d\d, )?go1\..*, \w+/\w+\)\n$`, string(output))
}
