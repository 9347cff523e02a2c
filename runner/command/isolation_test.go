package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
)

func TestNoDescendantSurvives(t *testing.T) {
	tests := []struct {
		name, last string
		reason     string
	}{
		{name: "end", last: "ok {}", reason: "success"},
		{name: "exit", last: "exit 1", reason: "crash"},
		{name: "stop", last: "hang", reason: "cancel"},
	}
	w := newWire(t, "ready", Config{CancelGrace: -1})
	for _, tt := range tests {
		for _, fork := range []string{"fork", "fork away"} {
			t.Run(tt.name+", "+fork, func(t *testing.T) {
				if fork == "fork away" && runtime.GOOS != "linux" {
					t.Skip("a child that leaves the process group is only found on Linux")
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := w.start(ctx, runner.Limits{}, oneJob("who", fork, tt.last))
				if tt.reason == "cancel" {
					f.awaitLine(3)
					cancel()
				}
				record := f.wait()
				require.Equal(t, tt.reason, record.Reason)
				said := logLines(t, record, "JOB")
				require.Len(t, said, 4)
				for _, line := range said {
					requireGone(t, pidOf(t, line))
				}
			})
		}
	}
}

func TestAProcessHasAFolderOfItsOwn(t *testing.T) {
	w := newWire(t, "ready", Config{})
	said := logLines(t, w.job("who", "file", "ok {}"), "JOB")
	folder, err := strconv.Unquote(strings.Fields(said[0])[1])
	require.NoError(t, err)
	require.Contains(t, folder, "phxworker-engine-")
	require.Eventually(t, func() bool {
		_, err := os.Lstat(folder)
		return os.IsNotExist(err)
	}, patient, time.Millisecond)
}

func TestAProcessDoesNotSeeTheWorkersEnvironment(t *testing.T) {
	t.Setenv("WORKER_SECRET", "hush")
	t.Setenv("TZ", "UTC")
	t.Setenv("HOME", "/home/worker")
	w := newWire(t, "ready", Config{})
	var env []string
	require.NoError(t, json.Unmarshal([]byte(logLines(t, w.job("env", "ok {}"), "JOB")[0]), &env))
	keys := map[string]string{}
	for _, pair := range env {
		key, value, _ := strings.Cut(pair, "=")
		keys[key] = value
	}
	require.Equal(t, "UTC", keys["TZ"])
	require.Equal(t, keys["TMPDIR"], keys["HOME"])
	require.True(t, strings.HasPrefix(filepath.Base(keys["TMPDIR"]), "phxworker-engine-"))
	for key := range keys {
		require.Contains(t, []string{"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "HOME"}, key)
	}

	w = newWire(t, "ready", Config{Env: []string{"A=1", "HOME=/nowhere"}})
	require.NoError(t, json.Unmarshal([]byte(logLines(t, w.job("env", "ok {}"), "JOB")[0]), &env))
	require.Len(t, env, 3)
	require.Equal(t, "A=1", env[0])
	require.NotContains(t, env, "HOME=/nowhere")
}

func TestAProcessIsGrantedItsFolder(t *testing.T) {
	w := newWire(t, "", Config{
		Args: os.Args[:1],
		Grant: func(tmp string) ([]string, error) {
			return []string{"engine", `hello {"type":"ready","versions":{"engine":"` + tmp + `"}}`}, nil
		},
	})
	record := w.job("who", "ok {}")
	folder := strings.Fields(logLines(t, record, "JOB")[0])[1]
	require.Contains(t, string(eventsOf(record, "run:start")[0]), `"engine":`+folder)
}

func TestAProcessOverItsMemoryIsKilled(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory is watched on Linux only")
	}
	w := newWire(t, "ready", Config{})
	for range 2 {
		f := w.start(t.Context(), runner.Limits{MemoryMB: 60}, oneJob("who", "eat 200", "hang"))
		record := f.wait()
		requireEnd(t, record, "kill", "OOMError", "Run exceeded maximum memory usage")
		requireGone(t, pidOf(t, logLines(t, record, "JOB")[0]))
	}
	requireEnd(t, w.start(t.Context(), runner.Limits{MemoryMB: 300}, oneJob("eat 20", "ok {}")).wait(), "success", "", "")
}
