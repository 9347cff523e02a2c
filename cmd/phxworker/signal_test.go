package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/runner"
)

// These tests run the binary as it is shipped: its signals and its exit codes.

// shipped is the binary at work, with a run under way that waits for as long as
// the test says.
type shipped struct {
	t      *testing.T
	server *mockserver.Server
	worker *exec.Cmd
	stderr *log
}

func ship(t *testing.T, waits time.Duration, args ...string) *shipped {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "phxworker")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))

	s := &shipped{t: t, server: startServer(t, ""), stderr: newLog()}
	s.worker = exec.CommandContext(t.Context(), binary, append([]string{"--lightning", s.server.URL()}, args...)...)
	s.worker.Env = append(os.Environ(), "WORKER_SECRET="+secret)
	s.worker.Stderr = s.stderr
	require.NoError(t, s.worker.Start())
	t.Cleanup(func() { _ = s.worker.Process.Kill() }) // if the test fails before the signal
	s.stderr.await(t, "joined the queue")
	ms, err := json.Marshal(waits.Milliseconds())
	require.NoError(t, err)
	enqueue(t, s.server, "slow", "fn(async s => { console.log('under way'); await new Promise(done => setTimeout(done, "+string(ms)+")); return { data: 1 }; })")
	require.Eventually(t, func() bool { return len(sent(s.server, "run:log", "under way")) > 0 }, patient, time.Millisecond)
	return s
}

func (s *shipped) signal() {
	s.t.Helper()
	require.NoError(s.t, s.worker.Process.Signal(syscall.SIGTERM))
}

func (s *shipped) exitCode() int {
	s.t.Helper()
	err := s.worker.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	require.NoError(s.t, err)
	return 0
}

func TestOneSignalLetsTheRunFinish(t *testing.T) {
	s := ship(t, 500*time.Millisecond)
	s.signal()
	s.stderr.await(t, "stopping")
	enqueue(t, s.server, "too-late", "fn(s => s)")
	require.Equal(t, exitOK, s.exitCode())
	record, _ := s.server.Inspect("slow")
	require.Equal(t, lightning.Success, record.State, record.ErrorMessage)
	late, _ := s.server.Inspect("too-late")
	require.Equal(t, lightning.Available, late.State, "nothing is claimed after the signal")
	require.NotEmpty(t, sent(s.server, "worker:queue", "phx_leave"))
}

func TestASecondSignalCancelsAndReportsTheRun(t *testing.T) {
	s := ship(t, time.Hour)
	s.signal()
	s.stderr.await(t, "stopping: no more claims")
	s.signal()
	require.Equal(t, exitAborted, s.exitCode())
	result := wait(t, s.server, "slow")
	require.Equal(t, "cancel", result.Reason)
	require.NotEmpty(t, sent(s.server, "worker:queue", "phx_leave"))
}

func TestTheGraceEndsAsASecondSignalDoes(t *testing.T) {
	s := ship(t, time.Hour, "--grace", "0.2")
	s.signal()
	require.Equal(t, exitAborted, s.exitCode())
	require.Equal(t, "cancel", wait(t, s.server, "slow").Reason)
}

// The server is away, so the second stage has to wait for it; the third does
// not, and what the second would have given up is not spooled.
func TestAThirdSignalEndsTheProcessAtOnce(t *testing.T) {
	s := ship(t, time.Hour)
	require.NoError(t, s.server.Close())
	s.stderr.await(t, "not connected")
	s.signal()
	s.stderr.await(t, "stopping: no more claims")
	s.signal()
	s.stderr.await(t, "stopping the runs")
	s.signal()
	require.Equal(t, exitAtOnce, s.exitCode())
}

func TestSpoolIsListedAndResent(t *testing.T) {
	server := startServer(t, "")
	dir := t.TempDir()
	code, stdout, _ := execute(t.Context(), nil, "spool", "--spool", dir, "-l", "mock")
	require.Equal(t, exitOK, code)
	require.Contains(t, stdout, "nothing is spooled")

	// A run that was claimed, started and given up; its token is still good.
	enqueue(t, server, "lost", "fn(s => s)")
	token := claimByHand(t, server)
	spooled := runner.Spooled{
		RunID: "lost", Token: token, Cause: "the network was away", At: time.Now(), Delivered: 2,
		Events: []runner.SpooledEvent{{Event: "run:complete", Payload: json.RawMessage(`{"reason":"success","error_type":null,"error_message":null,"final_state":{"kept":true}}`)}},
	}
	data, err := json.Marshal(spooled)
	require.NoError(t, err)
	path := filepath.Join(dir, "lost.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))

	code, stdout, _ = execute(t.Context(), nil, "spool", "--spool", dir, "-l", "mock")
	require.Equal(t, exitOK, code)
	require.Regexp(t, `lost .* 1 of 3 events .*the network was away`, stdout)
	require.NotContains(t, stdout, token)

	code, stdout, stderr := execute(t.Context(), nil, "spool", "--resend", "--spool", dir, "-l", server.URL(), "-s", secret)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "lost: reported")
	require.JSONEq(t, `{"kept":true}`, string(wait(t, server, "lost").FinalState))
	require.NoFileExists(t, path)
}

// claimByHand claims the only run that is queued and returns its token.
func claimByHand(t *testing.T, server *mockserver.Server) string {
	t.Helper()
	claims := jwt.MapClaims{"iss": "urn:openfn:worker", "iat": time.Now().Unix(), "worker_id": "by-hand"}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	require.NoError(t, err)
	socket, err := channel.Open(channel.Config{URL: server.URL(), Params: func(context.Context) (url.Values, error) {
		return url.Values{"token": {token}}, nil
	}})
	require.NoError(t, err)
	defer socket.Close()
	topic, err := socket.Join(t.Context(), "worker:queue", nil)
	require.NoError(t, err)
	reply, err := topic.Push(t.Context(), "claim", map[string]any{"demand": 1, "worker_name": nil})
	require.NoError(t, err)
	var body struct{ Runs []struct{ Token string } }
	require.NoError(t, reply.Decode(&body))
	require.Len(t, body.Runs, 1)
	return body.Runs[0].Token
}
