//go:build unix

package worker

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

// startShell starts a shell as the worker of a case, and waits until it has written a file: its text is returned.
func startShell(t *testing.T, l *lab, script string) (s *subject, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	l.target = Target{Command: []string{"sh", "-c", script}, Env: []string{"FILE=" + file}}
	s = l.another()
	require.Eventually(t, func() bool {
		raw, _ := os.ReadFile(file)
		text = strings.TrimSpace(string(raw))
		return text != ""
	}, 10*time.Second, 5*time.Millisecond)
	return s, text
}

// inCase calls do in a case that has no worker yet. The context is that of the whole.
func inCase(t *testing.T, ctx context.Context, do func(l *lab)) {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no sh")
	}
	_, err := suite.Run(ctx, []suite.Case{{ID: "W1.1", Limit: time.Minute, Run: func(c *suite.T) { do(&lab{T: c}) }}}, suite.Options{})
	require.NoError(t, err)
}

// Who presses Ctrl+C again ends the kit at once: then no worker may be left that only a cleanup would have ended.
func TestAnInterruptEndsTheWorkerBeforeItsCaseIsOver(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	inCase(t, ctx, func(l *lab) {
		s, _ := startShell(t, l, `trap "" TERM; echo here >"$FILE"; while :; do sleep 1; done`)
		interrupt(suite.ErrInterrupted)
		select {
		case <-s.done:
		case <-time.After(10 * time.Second):
			t.Error("the worker goes on")
		}
	})
}

// The limit of a case is no interrupt: its words are about what the worker did, and not about its end.
func TestTheLimitOfACaseDoesNotEndItsWorker(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	inCase(t, ctx, func(l *lab) {
		s, _ := startShell(t, l, `echo here >"$FILE"; while :; do sleep 1; done`)
		cancel(context.DeadlineExceeded)
		select {
		case <-s.done:
			t.Error("it was ended")
		case <-time.After(100 * time.Millisecond):
		}
	})
}

// What a worker leaves behind is killed with its end: later its id may be that of another group.
func TestWhatAWorkerLeavesBehindIsKilledAtItsEnd(t *testing.T) {
	inCase(t, t.Context(), func(l *lab) {
		s, text := startShell(t, l, `sleep 1000 & echo $! >"$FILE"`)
		<-s.done
		left, err := strconv.Atoi(text)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return !runs(left) }, 10*time.Second, 5*time.Millisecond)
	})
}

// runs reports whether there is such a process, and it is no zombie that nobody has waited for yet.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}
