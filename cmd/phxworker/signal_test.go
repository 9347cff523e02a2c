package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/lightning"
)

// These tests run the binary as it is shipped: its signals and its exit codes.

// shipped is the binary at work, with a run under way that waits for as long as
// the test says.
type shipped struct {
	t      testing.TB
	server *mockserver.Server
	worker *exec.Cmd
	stderr *log
}

func ship(t *testing.T, waits time.Duration, args ...string) *shipped {
	t.Helper()
	s := launch(t, args...)
	enqueue(t, s.server, "slow", waiting(t, waits))
	require.Eventually(t, func() bool { return len(sent(s.server, "run:log", "under way")) > 0 }, patient, time.Millisecond)
	return s
}

// waiting is the body of a job that takes its time.
func waiting(t *testing.T, waits time.Duration) string {
	t.Helper()
	ms, err := json.Marshal(waits.Milliseconds())
	require.NoError(t, err)
	return "fn(async s => { console.log('under way'); await new Promise(done => setTimeout(done, " + string(ms) + ")); return { data: 1 }; })"
}

func launch(t *testing.T, args ...string) *shipped {
	t.Helper()
	server := startServer(t, "")
	return join(t, server, buildWorker(t), server.URL(), args...)
}

// buildWorker makes the binary, once for all tests, and returns where it is.
func buildWorker(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("the binary has no race detector in it, for which -short is")
	}
	compiling.Do(func() {
		output, err := exec.Command("go", "build", "-o", shippedBinary(), ".").CombinedOutput()
		if err != nil {
			compileError = fmt.Errorf("%w\n%s", err, output)
		}
	})
	require.NoError(t, compileError)
	return shippedBinary()
}

var (
	compiling    sync.Once
	compileError error
)

// join starts a worker of the server, which it reaches at the address, and waits
// until it says that it has joined.
func join(t testing.TB, server *mockserver.Server, binary, address string, args ...string) *shipped {
	t.Helper()
	s := spawn(t, server, binary, address, args...)
	s.stderr.await(t, "joined the queue")
	return s
}

// spawn starts a worker, and waits for nothing.
func spawn(t testing.TB, server *mockserver.Server, binary, address string, args ...string) *shipped {
	t.Helper()
	s := &shipped{t: t, server: server, stderr: newLog()}
	s.worker = exec.CommandContext(t.Context(), binary, append([]string{"--lightning", address}, args...)...)
	s.worker.Env = append(os.Environ(), "WORKER_SECRET="+secret, "WORKER_PORT=0", "XDG_RUNTIME_DIR="+ofTests)
	s.worker.Stderr = s.stderr
	require.NoError(t, s.worker.Start())
	t.Cleanup(func() { // if the test has not waited for it
		_ = s.worker.Process.Kill()
		_ = s.worker.Wait()
	})
	return s
}

func (s *shipped) signal() {
	s.t.Helper()
	require.NoError(s.t, s.worker.Process.Signal(syscall.SIGTERM))
}

// again sends a signal that counts as one more.
func (s *shipped) again() {
	s.t.Helper()
	time.Sleep(betweenSignals)
	s.signal()
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
	s := ship(t, 2*time.Second) // so that it is under way when the signal comes
	s.signal()
	s.stderr.await(t, "a second signal cancels the runs under way")
	enqueue(t, s.server, "too-late", "fn(s => s)")
	require.Equal(t, exitOK, s.exitCode())
	record, _ := s.server.Inspect("slow")
	require.Equal(t, lightning.Success, record.State, record.ErrorMessage)
	late, _ := s.server.Inspect("too-late")
	require.Equal(t, lightning.Available, late.State, "nothing is claimed after the signal")
	require.NotEmpty(t, sent(s.server, "worker:queue", "phx_leave"))
}

// timeout(1) signals its child and then its process group, which has the child in it.
func TestASignalThatComesTwiceAtOnceCancelsNothing(t *testing.T) {
	s := ship(t, 2*time.Second) // so that it is under way when the signal comes
	s.signal()
	s.stderr.await(t, "stopping: no more claims") // so that the kernel does not make them one
	s.signal()
	s.signal()
	require.Equal(t, exitOK, s.exitCode())
	record, _ := s.server.Inspect("slow")
	require.Equal(t, lightning.Success, record.State, record.ErrorMessage)
}

func TestSignalsCountWhenTheyAreASecondApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		began := time.Now()
		var at []time.Duration
		note := func() { at = append(at, time.Since(began)) }
		done := make(chan struct{})
		go func() {
			defer close(done)
			eachSignal(signals, note, note, note)
		}()
		for range 30 { // someone who keeps the key down
			signals <- syscall.SIGINT
			time.Sleep(99 * time.Millisecond)
			select {
			case <-done:
				require.Equal(t, []time.Duration{0, 1089 * time.Millisecond, 2178 * time.Millisecond}, at)
				return
			default:
			}
		}
		t.Fatal("the third never came", at)
	})
}

func TestASecondSignalCancelsAndReportsTheRun(t *testing.T) {
	s := ship(t, time.Hour)
	s.signal()
	s.stderr.await(t, "stopping: no more claims")
	s.again()
	line := s.stderr.await(t, "the worker has ended")
	require.Contains(t, line, `"level":"WARN"`, "it was told to")
	require.Contains(t, line, `"error":"runs were cut short, before they had ended or the server knew of it: 1"`)
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

// The signals come while runs are claimed, started, executed and reported, more of
// them than one socket carries: each that the worker has joined has its end at
// the server.
func TestSignalsUnderLoad(t *testing.T) {
	tests := []struct {
		name    string
		waits   time.Duration
		signals int
		code    int
		reason  string
	}{
		{name: "first", waits: 200 * time.Millisecond, signals: 1, code: exitOK, reason: "success"},
		{name: "second", waits: time.Hour, signals: 2, code: exitAborted, reason: "cancel"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			slots, runs := 150, 400
			if testing.Short() {
				runs = 160
			}
			s := launch(t, "--capacity", strconv.Itoa(slots))
			ids := make([]string, runs)
			for i := range ids {
				ids[i] = fmt.Sprint("r", i)
				enqueue(t, s.server, ids[i], waiting(t, tt.waits))
			}
			// As many as one socket cannot carry, and others being claimed.
			require.Eventually(t, func() bool { return s.server.Stats().Available <= runs-110 }, patient, time.Millisecond)
			s.signal()
			for range tt.signals - 1 {
				s.stderr.await(t, "stopping: no more claims")
				s.again()
			}
			require.Equal(t, tt.code, s.exitCode())
			ended := 0
			for _, id := range ids {
				record, _ := s.server.Inspect(id)
				if record.State == lightning.Available {
					continue
				}
				require.Equal(t, tt.reason, record.Reason, "%s is %s", id, record.State)
				ended++
			}
			require.GreaterOrEqual(t, ended, 110)
		})
	}
}

// The server is away, so the second stage has to wait for it; the third does
// not, and what the second would have given up is not spooled.
func TestAThirdSignalEndsTheProcessAtOnce(t *testing.T) {
	s := ship(t, time.Hour)
	require.NoError(t, s.server.Close())
	s.stderr.await(t, "not connected")
	s.signal()
	s.stderr.await(t, "stopping: no more claims")
	s.again()
	s.stderr.await(t, "stopping the runs")
	s.again()
	require.Equal(t, exitAtOnce, s.exitCode())
}
