package chunk

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/phxworker/phxworker/runner/egress"
)

// The operations on a stream. One that a request has opened takes the rest of its body from writes, until the end, and
// gives that of the response to reads. One that undoes a compression gives to reads what it makes of the writes.
const (
	opRead   = "read"   // the next bytes of what comes back
	opRest   = "rest"   // all that still comes, as a text if it is one
	opWrite  = "write"  // more of what goes there; answered when it is taken
	opEnd    = "end"    // no more goes there
	opCancel = "cancel" // nobody wants to know any more
	opUnpack = "unpack" // begins a stream that undoes the compression that Method names
)

// partSize is how much one read returns at most, in bytes.
const partSize = 64 << 10

// mostStreams bounds those of a run.
const mostStreams = 256

// mostOver bounds how many streams that are over are known to be.
const mostOver = 1 << 16

// Holds returns how many bytes the answer of an exchange may take in the worker until the job has it, but for whole
// bodies, which [egress.Call.ReadAll] counts.
func (x *Exchange) Holds() int64 {
	if x.Op == opRead {
		return 2 * partSize
	}
	return 0
}

var (
	errCancelled = errors.New("it was cancelled")
	errNoStream  = errors.New("there is no such stream")
	errTooMany   = fmt.Errorf("a run may have %d bodies open", mostStreams)
)

// stream is a body under way in both directions. Its methods may be called concurrently.
type stream struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	in     *io.PipeReader // what is written
	out    *io.PipeWriter
	turn   atomic.Pointer[egress.Turn] // of the request that has opened it, nil if none has
	idle   int                         // the most that may pass without a byte of what comes back, in milliseconds; 0 for any time

	mu   sync.Mutex
	from io.Reader // what comes back; nil as long as nothing does
	shut io.Closer // what is to be closed at its end, if not nil
}

// stream returns the one that the package knows by a number; 0 is one that nobody else knows.
func (c *Client) stream(parent context.Context, id int) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.streams[id]; known != nil && id != 0 {
		return known, nil
	}
	if c.over[id] {
		return nil, errNoStream
	}
	if len(c.streams) >= mostStreams {
		return nil, errTooMany
	}
	s := &stream{}
	s.ctx, s.cancel = context.WithCancelCause(parent)
	s.in, s.out = io.Pipe()
	// Who waits to write or to read would wait for ever.
	context.AfterFunc(s.ctx, func() { _ = s.out.CloseWithError(context.Cause(s.ctx)) })
	if id != 0 {
		if c.streams == nil {
			c.streams = make(map[int]*stream)
		}
		c.streams[id] = s
	}
	return s, nil
}

// keep frees a turn at the end of the stream.
func (s *stream) keep(turn *egress.Turn) {
	s.turn.Store(turn)
	context.AfterFunc(s.ctx, func() { turn.Free(context.Cause(s.ctx)) })
}

// forget ends a stream.
func (c *Client) forget(id int, s *stream, cause error) {
	c.mu.Lock()
	if c.streams[id] == s {
		delete(c.streams, id)
		c.overLocked(id)
	}
	c.mu.Unlock()
	if turn := s.turn.Load(); turn != nil {
		turn.Free(cause)
	}
	_ = s.in.CloseWithError(cmp.Or(cause, io.ErrClosedPipe))
	s.cancel(cause)
	if s.mu.TryLock() { // who reads closes by the context
		s.close()
		s.mu.Unlock()
	}
}

// overLocked has nothing begin on a stream any more: who writes where nobody reads waits for ever.
func (c *Client) overLocked(id int) {
	if c.over == nil || len(c.over) >= mostOver {
		c.over = make(map[int]bool)
	}
	c.over[id] = true
}

func (s *stream) close() {
	if s.shut != nil {
		_ = s.shut.Close()
	}
}

// onStream carries out an operation on a stream.
func (c *Client) onStream(ctx context.Context, x Exchange) (Answer, error) {
	c.mu.Lock()
	known := c.streams[x.Stream]
	if known == nil && x.Op == opCancel && x.Stream != 0 { // perhaps before what opens it
		c.overLocked(x.Stream)
	}
	over := c.over[x.Stream]
	c.mu.Unlock()
	if over && x.Op == opEnd {
		return Answer{Done: true}, nil
	}
	switch x.Op {
	case opCancel:
		if known != nil {
			c.forget(x.Stream, known, errCancelled)
		}
		return Answer{Done: true}, nil
	case opUnpack:
		s, err := c.stream(ctx, x.Stream)
		if err == nil {
			s.begin(c.Traffic.Bound(&lazy{open: func() (io.Reader, error) { return unpacker(x.Method, s.in) }}), nil)
		}
		return Answer{}, err
	case opWrite, opEnd: // perhaps before what opens it
		s, err := c.stream(ctx, x.Stream)
		if err != nil {
			return Answer{}, err
		}
		return s.write(x)
	}
	if known == nil {
		return Answer{}, errNoStream
	}
	answer, err := known.read(x)
	if err != nil || answer.Done {
		c.forget(x.Stream, known, err)
	}
	return answer, err
}

func (s *stream) write(x Exchange) (Answer, error) {
	if x.Op == opEnd {
		return Answer{Done: true}, s.out.Close()
	}
	data, err := x.bytes()
	if err == nil {
		_, err = s.out.Write(data)
	}
	return Answer{}, err
}

// begin gives a stream what comes back.
func (s *stream) begin(from io.Reader, shut io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from, s.shut = from, shut
}

func (s *stream) read(x Exchange) (Answer, error) {
	if x.Op == opRest {
		all, err := s.readAll(x.Call)
		return answerOf(all, true), err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == nil {
		return Answer{}, errNoStream
	}
	part := make([]byte, partSize)
	for {
		n, err := s.readOnce(part)
		switch {
		case n > 0:
			return answerOf(part[:n], false), nil // an error comes again
		case errors.Is(err, io.EOF):
			s.close()
			return Answer{Done: true}, nil
		case err != nil:
			return Answer{}, because(s.ctx, err)
		}
	}
}

func (s *stream) readAll(call *egress.Call) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == nil {
		return nil, errNoStream
	}
	all, err := call.ReadAll(s.ctx, readerFunc(s.readOnce))
	if err != nil {
		return nil, because(s.ctx, err)
	}
	s.close()
	return all, nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// readOnce reads what there is, and waits for it no longer than may be.
func (s *stream) readOnce(part []byte) (int, error) {
	defer alarm(s.cancel, s.idle, errBodyTimeout).Stop()
	return s.from.Read(part)
}

// answerOf returns bytes: the rest, as a text where it is one, or a part.
func answerOf(data []byte, rest bool) Answer {
	if rest && utf8.Valid(data) {
		text := string(data)
		return Answer{Text: &text, Done: true}
	}
	return Answer{Body: base64.StdEncoding.EncodeToString(data), Done: rest}
}

// lazy undoes a compression. It is opened when it is first read: to open it is to wait for what it reads.
type lazy struct {
	open func() (io.Reader, error)
	from io.Reader
	err  error
}

func (l *lazy) Read(p []byte) (int, error) {
	if l.from == nil && l.err == nil {
		l.from, l.err = l.open()
	}
	n, err := 0, l.err
	if err == nil {
		n, err = l.from.Read(p)
	}
	if lost := (*lost)(nil); err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &lost) {
		err = &packError{err}
	}
	return n, err
}

// endStreams ends all that are open.
func (c *Client) endStreams() {
	c.mu.Lock()
	open := c.streams
	c.streams = nil
	c.mu.Unlock()
	for id, s := range open {
		c.forget(id, s, fmt.Errorf("stream %d: %w", id, errCancelled))
	}
}
