package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServesUntilStopped(t *testing.T) {
	t.Setenv("WORKER_SECRET", "very secret")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"mockserver", "--port", "0"}, w, io.Discard)
		_ = w.Close()
	}()

	var greeting bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.Contains(greeting.String(), "/run/run-1\n") {
		n, err := out.Read(buf)
		require.NoError(t, err)
		greeting.Write(buf[:n])
	}
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(greeting.String())
	require.Contains(t, greeting.String(), strings.Replace(url, "http", "ws", 1)+"/worker\n")
	require.NotContains(t, greeting.String(), "very secret")
	body := regexp.MustCompile(`-d '(.*)'`).FindStringSubmatch(greeting.String())[1]
	resp, err := http.Post(url+"/run?wakeup", "application/json", strings.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusCreated, resp.StatusCode)
	http.DefaultClient.CloseIdleConnections()

	stop()
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Equal(t, "stopping\n", string(rest))
	require.Zero(t, <-code)
}

func TestBadInput(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)

	tests := []struct {
		name string
		args []string
		code int
		want string // a part of the one line
	}{
		{name: "port in use", args: []string{"--port", port}, code: 1, want: "127.0.0.1:" + port + " is in use: choose another port with --port"},
		{name: "no such address", args: []string{"--host", "192.0.2.1", "--port", "0"}, code: 1, want: "start the mock server: listen"},
		{name: "unknown flag", args: []string{"--nope"}, code: 2, want: "there is no option --nope (see mockserver --help)"},
		{name: "port is no number", args: []string{"--port", "http"}, code: 2, want: `--port "http" is not a whole number (see mockserver --help)`},
		{name: "port by its letter", args: []string{"-p", "http"}, code: 2, want: `--port "http" is not a whole number`},
		{name: "port without a value", args: []string{"--port"}, code: 2, want: "--port has no value"},
		{name: "time is a number", args: []string{"--run-timeout", "30"}, code: 2, want: `--run-timeout "30" is not a time: write it like 500ms, 30s or 5m`},
		{name: "toggle with a word", args: []string{"--opaque-tokens=perhaps"}, code: 2, want: `--opaque-tokens "perhaps" is neither true nor false`},
		{name: "port out of range", args: []string{"--port", "70000"}, code: 2, want: "--port 70000"},
		{name: "argument", args: []string{"start"}, code: 2, want: `unexpected argument "start"`},
		{name: "empty secret", args: []string{"--secret", ""}, code: 2, want: "--secret is empty"},
		{name: "secret twice", args: []string{"--secret", "a", "--secret-file", "no"}, code: 2, want: "--secret (WORKER_SECRET) and --secret-file (WORKER_SECRET_FILE) exclude each other"},
		{name: "secret of no file", args: []string{"--secret-file", "no"}, code: 2, want: "--secret-file: the file cannot be read: open no: "},
		{name: "log level", args: []string{"--log", "loud"}, code: 2, want: `--log "loud"`},
		{name: "time limit", args: []string{"--run-timeout", "0s"}, code: 2, want: "--run-timeout"},
		{name: "fault", args: []string{"--fault", `{"event":"claim","action":"delay"}`}, code: 2, want: "--fault {\"event\":\"claim\",\"action\":\"delay\"}: bad fault: delay can't be blank"},
		{name: "fault is no JSON", args: []string{"--fault", "drop"}, code: 2, want: "bad fault: fault must be a JSON object"},
		{name: "fault seed", args: []string{"--fault-seed", "-1"}, code: 2, want: `--fault-seed "-1" is not a whole number`},
		{name: "mode", args: []string{"--mode", "psychic"}, code: 2, want: `--mode: there is no mode "psychic"`},
		{name: "extensions without the mode", args: []string{"--mode", "lightning", "--extensions", "lease"}, code: 2, want: "--extensions needs --mode extended"},
		{name: "unknown extension", args: []string{"--mode", "extended", "--extensions", "lease,telepathy"}, code: 2, want: `--extensions: there is no "telepathy"; there are lease, `},
		{name: "lease", args: []string{"--mode", "extended", "--lease", "0s"}, code: 2, want: "--lease must be more"},
		{name: "frame limit", args: []string{"--max-frame", "0"}, code: 2, want: "--max-frame"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append([]string{"mockserver"}, tt.args...), &stdout, &stderr)
			require.Equal(t, tt.code, code, stderr.String())
			require.Contains(t, stderr.String(), tt.want)
			require.Equal(t, 1, strings.Count(stderr.String(), "\n"), stderr.String())
			require.Empty(t, stdout.String())
		})
	}
}

func TestFaultFlags(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{
			"mockserver", "--port", "0", "--fault-seed", "7",
			"--fault", `{"event":"claim","action":"drop","when":"after"}`, "--fault", `{"event":"join","action":"crash"}`,
		}, w, io.Discard)
		_ = w.Close()
	}()
	buf := make([]byte, 4096)
	n, err := out.Read(buf)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(string(buf[:n]))
	resp, err := http.Get(url + "/faults")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	require.Equal(t, `{"seed":7,"rules":[`+
		`{"id":1,"event":"claim","count":1,"action":"drop","when":"after","seen":0,"struck":0},`+
		`{"id":2,"event":"join","count":1,"action":"crash","when":"before","seen":0,"struck":0}],"strikes":[]}`+"\n", string(body))
	stop()
	require.Zero(t, <-code)
}

func TestExtendedFlags(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, w := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"mockserver", "--port", "0", "--mode", "extended", "--extensions", "lease,drain", "--max-queued", "1"}, w, io.Discard)
		_ = w.Close()
	}()
	buf := make([]byte, 4096)
	n, err := out.Read(buf)
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, out) }()
	require.Contains(t, string(buf[:n]), "mock Lightning with extensions at http")
	url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(string(buf[:n]))
	for _, status := range []int{http.StatusCreated, http.StatusTooManyRequests} {
		resp, err := http.Post(url+"/run", "application/json", strings.NewReader(`{"key":"k","jobs":[]}`))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	require.Zero(t, <-code)
}

func TestAModeThatThereIsNot(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, 2, run(t.Context(), []string{"mockserver", "--mode", "other"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), `mockserver: --mode: there is no mode "other"`)
}

func TestVersion(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"mockserver", "--version"}, &stdout, &stderr))
	require.Regexp(t, `^mockserver version dev \(`, stdout.String())
	require.Empty(t, stderr.String())
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"mockserver", "--help"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), "--wake-debounce")
	require.Empty(t, stderr.String())
}

// The secret of a file is the one that workers are asked for, and one that all can see
// on the command line is told.
func TestWhereTheSecretIsFrom(t *testing.T) {
	t.Setenv("WORKER_SECRET", "") // put back at the end
	require.NoError(t, os.Unsetenv("WORKER_SECRET"))
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte("from a file\n"), 0o600))
	for want, args := range map[string][]string{"from a file": {"--secret-file", file}, "on show": {"--secret", "on show"}, defaultSecret: nil} {
		var stderr bytes.Buffer
		cmd := newCommand(io.Discard, &stderr)
		cmd.Action = func(_ context.Context, cmd *cli.Command) error {
			cfg, err := config(cmd, &stderr)
			require.NoError(t, err)
			require.Equal(t, want, cfg.Secret)
			return nil
		}
		require.NoError(t, cmd.Run(t.Context(), append([]string{"mockserver"}, args...)))
		require.Equal(t, want == "on show", strings.Contains(stderr.String(), `msg="a secret is on the command line" option=--secret`), stderr.String())
		require.NotContains(t, stderr.String(), want)
	}
}
