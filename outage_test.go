package phxworker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/slots"
)

// duringAnOutage is what may happen to a worker while the server is away, and is to be
// so when it is back. Each keeps a worker from claiming that has one run and a slot to spare.
var duringAnOutage = map[string]func(t *testing.T, s *stranded){
	"paused":  func(t *testing.T, s *stranded) { require.NoError(t, s.worker.Pause("")) },
	"resized": func(t *testing.T, s *stranded) { require.NoError(t, s.worker.Resize("manual", 1)) },
	"gated":   func(_ *testing.T, s *stranded) { s.full.Store(true) },
	"drained": func(_ *testing.T, s *stranded) { s.worker.Drain() },
	"asked": func(t *testing.T, s *stranded) { // for a claim, by someone who has no patience
		require.NoError(t, s.worker.Pause(""))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.worker.Claim(ctx)
		if !errors.Is(err, ErrDraining) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	},
}

// stranded is a worker with two slots and one run whose server is away.
type stranded struct {
	*house
	worker *Worker
	full   atomic.Bool // whether the gate holds claims back
	stop   func() error
}

func strand(t *testing.T, cfg Config) *stranded {
	t.Helper()
	s := &stranded{house: openHouse(t, quiet)}
	cfg.Groups, cfg.Limits.RunTimeout = slots.MustParse("manual:2"), time.Hour
	cfg.Hooks.Gate = func(context.Context, string) error {
		if s.full.Load() {
			return errors.New("the disk is full")
		}
		return nil
	}
	s.enqueue("manual", "a")
	s.worker, s.stop = s.hire(cfg)
	settle(time.Minute)
	require.Equal(t, "started", s.state("a"))
	s.away.Store(true)
	s.cut()
	settle(time.Minute) // the loop would claim if it could
	s.enqueue("manual", "b")
	return s
}

func (s *stranded) back() {
	s.away.Store(false)
	settle(5 * time.Minute)
}

// Guards against a loop that has decided to claim before the connection was lost, or while it
// was, and claims when it is back whatever was decided since.
func TestNothingIsDecidedBeforeTheQueueIsJoined(t *testing.T) {
	for first, one := range duringAnOutage {
		for second, other := range duringAnOutage {
			t.Run(first+", "+second, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := strand(t, Config{})
					claims := len(s.sent("claim"))
					one(t, s)
					settle(time.Minute)
					if first != "drained" { // it takes no more orders
						other(t, s)
					}
					s.back()
					require.Len(t, s.sent("claim"), claims)
					require.Equal(t, "available", s.state("b"))
					s.gate.release("a")
					require.NoError(t, s.stop())
					require.Equal(t, "success", s.state("a"))
				})
			})
		}
	}
}

func TestAnOutageEndsWithAClaimAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strand(t, Config{})
		s.away.Store(false)
		for s.worker.Stats().Queue.Joins < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		settle(10 * time.Millisecond)
		require.Equal(t, "started", s.state("b"))
	})
}

// Whoever asks for a claim and waits has it put when the server is back, and no other.
func TestAClaimOnRequestWaitsForTheEndOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strand(t, Config{})
		require.NoError(t, s.worker.Pause(""))
		claims := len(s.sent("claim"))
		brought := make(chan bool)
		go func() {
			claimed, err := s.worker.Claim(t.Context())
			if err != nil {
				t.Error(err)
			}
			brought <- claimed
		}()
		s.back()
		require.True(t, <-brought)
		require.Len(t, s.sent("claim"), claims+1)
		require.Equal(t, "started", s.state("b"))
	})
}

// A worker that never reached its server stands with both feet outside: what is decided there holds, too.
func TestAPauseBeforeTheFirstJoinHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a")
		h.away.Store(true)
		worker, _ := h.hire(Config{})
		settle(time.Minute)
		require.NoError(t, worker.Pause(""))
		h.away.Store(false)
		settle(5 * time.Minute)
		require.Empty(t, h.sent("claim"))
		require.Equal(t, 0, strings.Count(h.state("a"), "started"))
		require.NoError(t, worker.Resume(""))
		settle(time.Second)
		require.Equal(t, "started", h.state("a"))
	})
}

// While there is no connection, no slot is kept for a claim that cannot be put.
func TestAnOutageKeepsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strand(t, Config{})
		require.Equal(t, 1, s.worker.Stats().Groups[0].Open)
		require.Zero(t, s.worker.Stats().Groups[0].Claimed)
	})
}
