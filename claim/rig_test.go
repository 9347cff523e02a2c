package claim_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

// rig is one loop that runs, with its pool and the means to stop it.
type rig struct {
	*claim.Loop
	pool      *slots.Pool
	endIntake context.CancelFunc
	endWork   context.CancelFunc
	done      chan error
	running   sync.WaitGroup
}

// runLoop starts a loop for the group, in a synctest bubble, and returns when it
// waits for something. The loop ends with the test at the latest.
func runLoop(t *testing.T, group string, o *outside, cfg claim.Config) *rig {
	t.Helper()
	cfg.Pool = slots.NewPool(slots.MustParse(group)[0])
	cfg.Claimer = o
	if cfg.Starter == nil {
		cfg.Starter = o
	}
	r := &rig{Loop: claim.NewLoop(cfg), pool: cfg.Pool, done: make(chan error, 1)}
	r.start(t)
	return r
}

// start runs the loop, for the first time or again after it has ended.
func (r *rig) start(t *testing.T) {
	t.Helper()
	intake, endIntake := context.WithCancel(t.Context())
	work, endWork := context.WithCancel(t.Context())
	r.endIntake, r.endWork = endIntake, endWork
	r.running.Go(func() { r.done <- r.Run(intake, work) })
	t.Cleanup(func() {
		endIntake()
		endWork()
		r.running.Wait()
	})
	synctest.Wait()
}

// ended reports whether Run has returned, which it must with nil.
func (r *rig) ended(t *testing.T) bool {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-r.done:
		require.NoError(t, err)
		return true
	default:
		return false
	}
}

// logBook returns a logger and what it has written so far.
func logBook() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var book bytes.Buffer
	write := writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return book.Write(p)
	})
	logger := slog.New(slog.NewTextHandler(write, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return logger, func() string {
		mu.Lock()
		defer mu.Unlock()
		return book.String()
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// gaps returns the pauses between moments.
func gaps(at []time.Duration) (gaps []time.Duration) {
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, at[i]-at[i-1])
	}
	return gaps
}
