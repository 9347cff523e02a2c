package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

const (
	// callBytes stand for what a call takes beside what it says.
	callBytes = 4 << 10
	// mostTogether is how much of each response is read while others are.
	mostTogether = 1 << 20
)

// Call is what a job asks of the worker's network at once, and what the worker holds of it until the job has the answer.
type Call struct {
	traffic *Traffic
	size    int64
	full    bool  // holds an answer; used by the one goroutine that answers the call
	large   bool  // one beyond mostTogether; the same
	turn    *Turn // of the request whose response it answers, nil for none; the same
	free    sync.Once
}

// Admit returns a call that says so many bytes. It does not wait; the error is an [*Error]. Free the call.
func (t *Traffic) Admit(size int64) (*Call, error) {
	size += callBytes
	if !t.hold(size) {
		return nil, t.limited(limit("EDQUOT", syscall.EDQUOT, fmt.Sprintf("the requests that a run has under way may have %s together", megabytes(t.limits.WaitingBytes))))
	}
	return &Call{traffic: t, size: size}, nil
}

func (t *Traffic) hold(size int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting+size > t.limits.WaitingBytes {
		return false
	}
	t.waiting += size
	return true
}

// ReadAll reads all of a body that [Turn.Body] or [Traffic.Bound] has bounded. As many calls may hold one as requests are
// under way, and beyond 1 MB a single one: what servers send is in memory until the job takes it.
func (c *Call) ReadAll(ctx context.Context, body io.Reader) ([]byte, error) {
	select {
	case c.traffic.full <- struct{}{}:
		c.full = true
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	data, err := io.ReadAll(io.LimitReader(body, mostTogether))
	if err != nil || len(data) < mostTogether {
		return data, err
	}
	select {
	case c.traffic.large <- struct{}{}:
		c.large = true
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	rest, err := io.ReadAll(body)
	return append(data, rest...), err
}

// Free ends the call, once its answer is no longer in the worker's memory.
func (c *Call) Free() {
	c.free.Do(func() {
		if c.large {
			<-c.traffic.large
		}
		if c.full {
			<-c.traffic.full
		}
		if c.turn != nil {
			c.turn.answered()
		}
		c.traffic.mu.Lock()
		defer c.traffic.mu.Unlock()
		c.traffic.waiting -= c.size
	})
}

// Turn is that of a request: it is one of those under way.
type Turn struct {
	traffic *Traffic
	late    *time.Timer
	place   sync.Once
	free    sync.Once
}

// Await waits until a request may begin, and returns its turn. When that has taken as long as one may, cancel is called. The
// error is an [*Error], or the cause of ctx. Free the turn.
func (t *Traffic) Await(ctx context.Context, cancel context.CancelCauseFunc) (*Turn, error) {
	if err := t.countRequest(); err != nil {
		t.ended(err)
		return nil, t.limited(err)
	}
	select {
	case t.turns <- struct{}{}:
	case <-ctx.Done():
		t.ended(context.Cause(ctx))
		return nil, context.Cause(ctx)
	}
	late := limit("ETIMEDOUT", syscall.ETIMEDOUT, fmt.Sprintf("an exchange may take %v", t.limits.Exchange))
	return &Turn{traffic: t, late: time.AfterFunc(t.limits.Exchange, func() {
		_ = t.limited(late)
		cancel(late)
	})}, nil
}

func (t *Traffic) countRequest() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests >= t.limits.Requests {
		return limit("EDQUOT", syscall.EDQUOT, fmt.Sprintf("a run may make %d requests", t.limits.Requests))
	}
	t.requests++
	return nil
}

// Sent returns the body of a request, which counts what is read of it. Its error is an [*Error] for what is too much.
func (u *Turn) Sent(body io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		n, err := body.Read(p)
		u.traffic.guard.count(func(s *Stats) { s.Sent += uint64(n) }) //nolint:gosec // not negative
		if over := u.traffic.spend(n); over != nil {
			return 0, over
		}
		return n, err
	})
}

// patience is how long others wait for a job that writes a body.
const patience = time.Second

// Written returns the body of a request that the job writes bit by bit. Where it writes nothing for a second, another request
// begins: the job may wait for that one before it goes on with this.
func (u *Turn) Written(body io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		defer time.AfterFunc(patience, u.answered).Stop()
		return body.Read(p)
	})
}

// Body returns the body of a response, after decompression, bounded. Its error is an [*Error] for what is too much.
func (u *Turn) Body(body io.Reader) io.Reader {
	return u.traffic.Bound(readerFunc(func(p []byte) (int, error) {
		n, err := body.Read(p)
		u.traffic.guard.count(func(s *Stats) { s.Received += uint64(n) }) //nolint:gosec // not negative
		if over := u.traffic.spend(n); over != nil {
			return n, over
		}
		return n, err
	}))
}

// Answer has another request begin when the call is freed, though the body of the response is still to be read: a job that reads
// none of its bodies before it has all responses, as those of Node may, would wait for ever. It is not sooner, for each response that
// waits for the job has a connection.
func (c *Call) Answer(u *Turn) { c.turn = u }

func (u *Turn) answered() { u.place.Do(func() { <-u.traffic.turns }) }

// Free ends the turn, and counts how its request ended: with an error, or nil for an answer. Only the first call counts.
func (u *Turn) Free(err error) {
	u.free.Do(func() {
		u.late.Stop()
		u.answered()
		u.traffic.ended(err)
	})
}

// ended counts a request.
func (t *Traffic) ended(err error) {
	ending := Answered
	own, isOwn := errors.AsType[*Error](err)
	switch {
	case isOwn && own.Code == "EACCES":
		ending = Kept
	case isOwn:
		ending = Limited
	case err != nil:
		ending = Unanswered
	}
	t.guard.count(func(s *Stats) { s.Requests[ending]++ })
}

// spend takes bytes of what the run may exchange.
func (t *Traffic) spend(n int) error {
	if spent := t.bytes.Add(int64(n)); t.limits.RunBytes > 0 && spent > t.limits.RunBytes {
		return t.limited(limit("EDQUOT", syscall.EDQUOT, fmt.Sprintf("a run may send and receive %s in all, by its --egress-limit", megabytes(t.limits.RunBytes))))
	}
	return nil
}

// Bound returns a reader of as much as one response may have. Its error is an [*Error] for what is too much.
func (t *Traffic) Bound(body io.Reader) io.Reader {
	left := t.limits.ResponseBytes
	return readerFunc(func(p []byte) (int, error) {
		n, err := body.Read(p)
		if left -= int64(n); left < 0 {
			what := "a response may have " + megabytes(t.limits.ResponseBytes)
			return 0, t.limited(&Error{Name: "ResponseExceededMaxSizeError", Code: "UND_ERR_RES_EXCEEDED_MAX_SIZE", message: what, limit: what})
		}
		return n, err
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func megabytes(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
