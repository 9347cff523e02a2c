package openfn

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Guards against a worker that hangs as it starts, without a word and deaf to signals: what hangs is a child of the
// script in the place of Node, as a version manager has it, and holds the pipe.
func TestANodeThatHangsIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	held := filepath.Join(dir, "pid")
	script := "#!/bin/sh\n/bin/sleep 20 &\necho $! >" + held + "\nwait\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "node"), []byte(script), 0o755))
	t.Setenv("PATH", dir)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			if pid, _ := os.ReadFile(held); len(pid) > 0 {
				stop() // as a signal does
			}
			runtime.Gosched()
		}
	}()
	began := time.Now()
	require.ErrorContains(t, CheckNode(ctx), "does not say what version it is")
	require.Less(t, time.Since(began), 15*time.Second)
	text, err := os.ReadFile(held)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// A Node whose permission model lets jobs out executes none.
func TestWhichNodesExecuteJobs(t *testing.T) {
	tests := []struct {
		version string
		good    bool
	}{
		{"18.20.8", false},
		{"20.16.0", false},
		{"20.19.6", false},
		{"20.20.2", true},
		{"21.7.3", false},
		{"22.21.1", false},
		{"22.22.0", true},
		{"23.11.0", false},
		{"24.9.0", false},
		{"24.13.0", true},
		{"25.2.1", false},
		{"25.3.0", true},
		{"26.0.0", true},
		{"odd", false},
	}
	for _, tt := range tests {
		t.Run(tt.version, func(t *testing.T) {
			dir := t.TempDir()
			script := "#!/bin/sh\necho '{\"version\":\"" + tt.version + "\",\"flags\":[\"--permission\"]}'\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "node"), []byte(script), 0o755))
			t.Setenv("PATH", dir)
			err := CheckNode(t.Context())
			if tt.good {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, "the OpenFn engine needs Node 20.20, 22.22, 24.13 or later; "+dir+"/node is "+tt.version+
				", which does not keep jobs from the files of the worker")
		})
	}
}
