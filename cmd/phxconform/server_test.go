package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/server"
)

// The commands of --enqueue and --control are all that a server in another language has to bring along.
func TestAServerIsTriedByItsScripts(t *testing.T) {
	needCurl(t)
	cfg, err := server.MockConfig(mockserver.Extended)
	require.NoError(t, err)
	m := mockserver.NewTest(t, cfg)
	control := filepath.Join(t.TempDir(), "control")
	require.NoError(t, os.WriteFile(control, []byte(`#!/bin/sh
case $1 in
drain) curl -fsS `+m.HTTPURL()+`/drain -d @- ;;
*) curl -fsS `+m.HTTPURL()+`/run/$2/$1 -d @- ;;
esac`), 0o700))
	var stdout, stderr strings.Builder
	code := run(t.Context(), []string{
		"phxconform", "server", "--url", m.URL(), "--secret", m.Secret(), "--enqueue", "curl -fsS " + m.HTTPURL() + "/run -d @-", "--control", control,
		"--case", "S1.1", "--case", "S3.8", "--case", "S3.9", "--case", "S4.8", "--case", "S4.9", "--case", "S8.1", "--case", "S8.6", "--case", "S8.7", "--case", "S9.2",
	}, &stdout, &stderr)
	require.Zero(t, code, "%s\n%s", &stdout, &stderr)
	require.NotContains(t, stdout.String(), "not tried")
}

// needCurl skips where there is none.
func needCurl(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not in PATH")
	}
}

func TestAServerThatCannotDoWhatACaseNeeds(t *testing.T) {
	m := mockserver.NewTest(t, mockserver.Config{})
	var stdout, stderr strings.Builder
	args := []string{"phxconform", "server", "--url", m.URL(), "--secret", m.Secret(), "--case", "S3.3", "--enqueue"}
	require.Equal(t, exitUnable, run(t.Context(), append(args, "echo 'no queue today' >&2; exit 3"), &stdout, &stderr))
	require.Contains(t, stdout.String(), "no queue today")
	stdout.Reset()
	require.Equal(t, exitRed, run(t.Context(), append(args, "echo not an id"), &stdout, &stderr))
	require.Contains(t, stdout.String(), "the command printed no id")
	stdout.Reset()
	require.Equal(t, exitRed, run(t.Context(), append(args, "echo 'out of paper' >&2; PASSWORD=correct-horse sh -c 'exit 4'"), &stdout, &stderr))
	require.Contains(t, stdout.String(), "the command has failed: exit status 4: out of paper")
	require.NotContains(t, stdout.String(), "correct-horse")
}

// It is like the command of a worker that does not exist: nothing was tried, so nothing is red.
func TestNothingListensAtTheURL(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	code, stdout, stderr := execute(t.Context(), "server", "--url", "ws://"+l.Addr().String()+"/worker", "--secret", "s", "--enqueue", "false", "--case", "S1.1")
	require.Equal(t, exitUnable, code, stdout)
	require.Contains(t, stdout, "not tried: nothing listens at --url: dial tcp "+l.Addr().String())
	require.Contains(t, stderr, "no case was tried")
}

func TestACommandThatHangsIsKilled(t *testing.T) {
	_, err := script("echo 'waiting for a lock' >&2; sleep 60; echo").runWithin(t.Context(), 300*time.Millisecond, nil)
	require.ErrorContains(t, err, "the command has failed: it has not ended within 300ms, and was killed: waiting for a lock")
}

func TestWhatIsWrongOnTheCommandLineOfAServer(t *testing.T) {
	for want, args := range map[string][]string{
		"--url is missing":               {},
		"none of a websocket":            {"--url", "https://example.org/worker", "--secret", "s", "--enqueue", "c"},
		"--secret is missing":            {"--url", "ws://example.org/worker", "--enqueue", "c"},
		"--enqueue is missing":           {"--url", "ws://example.org/worker", "--secret", "s"},
		"is to be PEM in base64":         {"--url", "ws://example.org/worker", "--secret", "s", "--enqueue", "c", "--public-key", "garbage"},
		"two different servers":          {"--mock", "lightning", "--url", "ws://example.org/worker"},
		`there is no mode "clairvoyant"`: {"--mock", "clairvoyant"},
		`unexpected argument "mock"`:     {"mock"},
		`there is no case "S99"`:         {"--mock", "extended", "--case", "S99"},
	} {
		t.Setenv("WORKER_SECRET", "")
		var stdout, stderr strings.Builder
		require.Equal(t, exitUsage, run(t.Context(), append([]string{"phxconform", "server"}, args...), &stdout, &stderr), want)
		require.Contains(t, stderr.String(), want)
	}
}
