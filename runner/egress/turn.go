package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
)

const (
	// requestBytes stand for what a request takes beside its body.
	requestBytes = 4 << 10
	// mostTogether is how much of each response is read while others are.
	mostTogether = 1 << 20
)

// Turn is that of one exchange of a run. One goroutine may use it at a time.
type Turn struct {
	traffic *Traffic
	size    int64
	began   bool
	large   bool
	ended   bool
	free    sync.Once
}

// Admit returns the turn of a request of so many bytes, which has not come yet. It does not wait; the error is an
// [*Error]. Free the turn.
func (t *Traffic) Admit(size int64) (*Turn, error) {
	size += requestBytes
	if err := t.admit(size); err != nil {
		t.guard.count(func(s *Stats) { s.Requests[Limited]++ })
		return nil, t.limited(err)
	}
	return &Turn{traffic: t, size: size}, nil
}

func (t *Traffic) admit(size int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.requests >= t.limits.Requests:
		return limit("EDQUOT", syscall.EDQUOT, fmt.Sprintf("a run may make %d requests", t.limits.Requests))
	case t.waiting+size > t.limits.WaitingBytes:
		return limit("EDQUOT", syscall.EDQUOT, fmt.Sprintf("the requests that a run has under way may have %s together", megabytes(t.limits.WaitingBytes)))
	}
	t.requests++
	t.waiting += size
	return nil
}

// Await waits until the exchange may begin, and returns the context that it lives under. sent is the size of what it
// sends. The error is an [*Error], or the cause of ctx.
func (u *Turn) Await(ctx context.Context, sent int) (context.Context, context.CancelFunc, error) {
	t := u.traffic
	select {
	case t.turns <- struct{}{}:
		u.began = true
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	t.guard.count(func(s *Stats) { s.Sent += uint64(sent) }) //nolint:gosec // not negative
	if err := t.spend(sent); err != nil {
		return nil, nil, err
	}
	late := limit("ETIMEDOUT", syscall.ETIMEDOUT, fmt.Sprintf("an exchange may take %v", t.limits.Exchange))
	ctx, cancel := context.WithTimeoutCause(ctx, t.limits.Exchange, late)
	return ctx, cancel, nil
}

// ReadAll reads the body of a response, which is in memory until the turn is freed. The error is an [*Error] for what is too much.
func (u *Turn) ReadAll(ctx context.Context, source io.Reader) ([]byte, error) {
	bounded := &body{turn: u, source: source}
	data, err := io.ReadAll(io.LimitReader(bounded, mostTogether))
	if err != nil || len(data) < mostTogether {
		return data, err
	}
	select {
	case u.traffic.large <- struct{}{}:
		u.large = true
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	rest, err := io.ReadAll(bounded)
	return append(data, rest...), err
}

// End counts how the exchange ended: with an error, or nil for an answer. Only the first call counts.
func (u *Turn) End(err error) {
	if u.ended {
		return
	}
	u.ended = true
	ending := Answered
	own, isOwn := errors.AsType[*Error](err)
	switch {
	case isOwn && own.Code == "EACCES":
		ending = Kept
	case isOwn:
		ending = Limited
		if own.Code == "ETIMEDOUT" {
			_ = u.traffic.limited(own)
		}
	case err != nil:
		ending = Unanswered
	}
	u.traffic.guard.count(func(s *Stats) { s.Requests[ending]++ })
}

// Free ends the turn, once what it held is no longer in the worker's memory.
func (u *Turn) Free() {
	u.free.Do(func() {
		u.End(context.Canceled)
		t := u.traffic
		if u.large {
			<-t.large
		}
		if u.began {
			<-t.turns
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waiting -= u.size
	})
}

// spend takes bytes of what the run may exchange.
func (t *Traffic) spend(n int) error {
	if spent := t.bytes.Add(int64(n)); t.limits.RunBytes > 0 && spent > t.limits.RunBytes {
		return t.limited(limit("EDQUOT", syscall.EDQUOT, fmt.Sprintf("a run may send and receive %s in all, by its --egress-limit", megabytes(t.limits.RunBytes))))
	}
	return nil
}

// body is that of a response, and bounded.
type body struct {
	turn   *Turn
	source io.Reader
	read   int64
}

func (b *body) Read(p []byte) (int, error) {
	t := b.turn.traffic
	n, err := b.source.Read(p)
	b.read += int64(n)
	t.guard.count(func(s *Stats) { s.Received += uint64(n) }) //nolint:gosec // not negative
	over := t.spend(n)
	if b.read > t.limits.ResponseBytes {
		what := "a response may have " + megabytes(t.limits.ResponseBytes)
		return 0, t.limited(&Error{Name: "ResponseExceededMaxSizeError", Code: "UND_ERR_RES_EXCEEDED_MAX_SIZE", message: what, limit: what})
	}
	if over != nil {
		return 0, over
	}
	return n, err
}

func megabytes(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
