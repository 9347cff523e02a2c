// Package extension lets a client use events that not every server knows.
//
// A Phoenix channel dies of an event that it has no clause for, so a client must
// not try. Instead it offers extensions in the payload of each join, and the
// server's reply names those it knows as well:
//
//	phx_join  {…, "extensions": {"lease": 1}}
//	reply     {…, "extensions": {"lease": {"v": 1, "duration_ms": 1200000}}}
//
// What both have named is agreed on, for that topic and that join only: [Set.Push]
// sends nothing under another join, so nothing that waited for a reconnect reaches
// a server that never agreed. A server that knows no extensions ignores the key and answers
// without it, and sees nothing more.
//
// An extension over which a topic crashes all the same is switched off: it is not
// offered any more, for the life of the set, and one warning says so. One of which a push
// was ever answered is known to the server, which can crash over anything; else it is taken for the
// cause if its push was alone under way, or if that happens again and again. What other
// joins have agreed on before stays agreed on while they last, for the server counts
// on it. A failed push never means more than that it failed: every extension must have
// a fallback.
package extension

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/phxworker/phxworker/channel"
)

// version is the only one that there is of each extension.
const version = 1

// ErrNotAgreed says that an extension was not agreed on with a join. Nothing was
// sent.
var ErrNotAgreed = errors.New("the extension was not agreed on with the server")

// Set is the extensions that a client offers. Its methods may be called
// concurrently. A nil Set offers none.
type Set struct {
	log *slog.Logger

	mu     sync.Mutex
	names  []string
	off    []crash
	out    map[*push]bool // those under way
	doubts map[string]*doubt
}

// doubt is what is known of an extension: whether a push of it was ever answered, and over
// how many its topic has crashed.
type doubt struct {
	answered bool
	crashes  int
}

// manyDoubts are no chance.
const manyDoubts = 5

// crash is an extension that was switched off, and when its topic crashed.
type crash struct {
	name string
	at   time.Time
}

// push is one that is on its way.
type push struct {
	join        *channel.Join
	name, event string
}

// NewSet returns a set that offers the extensions with these names.
func NewSet(log *slog.Logger, names ...string) *Set {
	s := &Set{log: log, names: slices.Clone(names), out: make(map[*push]bool), doubts: make(map[string]*doubt)}
	for _, name := range names {
		s.doubts[name] = new(doubt)
	}
	return s
}

// Offer returns what to offer at a join, of the extensions that belong to its
// topic: the value of "extensions" in the payload. It is nil when there is none,
// and the key is to be left out then.
func (s *Set) Offer(names ...string) map[string]int {
	if s == nil {
		return nil
	}
	suspects := s.suspects()
	now := time.Now()
	var offer map[string]int
	for _, name := range names {
		if !s.offered(name, now) || slices.Contains(suspects, name) {
			continue
		}
		if offer == nil {
			offer = make(map[string]int)
		}
		offer[name] = version
	}
	return offer
}

// suspects returns what a topic may have crashed over: it is joined again before those
// who wait for its answers have run, and say whether they had been sent.
func (s *Set) suspects() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.out {
		if _, lost := p.join.End(); errors.Is(lost, channel.ErrCrashed) && s.doubts[p.name].isCause(p.join) {
			names = append(names, p.name)
		}
	}
	return names
}

// offered reports whether a join that was asked for at that time has offered the
// extension.
func (s *Set) offered(name string, asked time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.off {
		if c.name == name && !asked.Before(c.at) {
			return false
		}
	}
	return slices.Contains(s.names, name)
}

// Off returns the extensions that were switched off, in the order in which they
// were.
func (s *Set) Off() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, c := range s.off {
		names = append(names, c.name)
	}
	return names
}

// Agreed reports whether the extension was agreed on with this join, which may be
// nil, and if so stores the server's terms in what terms points to, unless that is nil.
// Terms that cannot be read are none.
func (s *Set) Agreed(join *channel.Join, name string, terms any) bool {
	if s == nil || join == nil || !s.offered(name, join.Asked) {
		return false
	}
	var reply struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	if json.Unmarshal(join.Response, &reply) != nil {
		return false
	}
	announced, found := reply.Extensions[name]
	if !found {
		return false
	}
	var v struct{ V int }
	if json.Unmarshal(announced, &v) != nil || v.V != version {
		return false
	}
	return terms == nil || json.Unmarshal(announced, terms) == nil
}

// Milliseconds returns a duration that the other side has named, as a number that
// may be anything: none below zero, a year at most.
func Milliseconds(n float64) time.Duration {
	const year = 365 * 24 * time.Hour
	if !(n > 0) { // NaN is not
		return 0
	}
	return time.Duration(min(n, float64(year/time.Millisecond)) * float64(time.Millisecond))
}

// Push sends an event under the join: one of an extension, or one of the protocol that
// an extension adds to. Its error wraps [ErrNotAgreed], or is that of
// [channel.Join.Push].
func (s *Set) Push(ctx context.Context, join *channel.Join, name, event string, payload any) (channel.Reply, error) {
	if !s.Agreed(join, name, nil) {
		return channel.Reply{}, fmt.Errorf("%s: %w", name, ErrNotAgreed)
	}
	p := &push{join: join, name: name, event: event}
	s.note(p)
	reply, err := join.Push(ctx, event, payload)
	if s.judge(p, err) {
		s.switchOff(p)
	}
	s.mu.Lock()
	delete(s.out, p)
	s.mu.Unlock()
	return reply, err
}

// judge reports whether the outcome of a push shows that the server crashes over it.
func (s *Set) judge(p *push, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.doubts[p.name]
	switch {
	case err == nil, errors.As(err, new(*channel.RefusedError)):
		d.answered = true
	case errors.Is(err, channel.ErrCrashed):
		guilty := d.isCause(p.join)
		d.crashes++
		return guilty
	}
	return false
}

// isCause reports whether the crash of the join is one too many.
func (d *doubt) isCause(join *channel.Join) bool {
	return !d.answered && (join.Unanswered() == 1 || d.crashes+1 >= manyDoubts)
}

func (s *Set) note(p *push) {
	if _, lost := p.join.End(); lost != nil { // nothing will be sent
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out[p] = true
}

// switchOff ends the offer of the extension of a push whose join has crashed.
func (s *Set) switchOff(p *push) {
	at, cause := p.join.End()
	s.mu.Lock()
	known := slices.ContainsFunc(s.off, func(c crash) bool { return c.name == p.name })
	if !known {
		s.off = append(s.off, crash{p.name, at})
	}
	s.mu.Unlock()
	if !known {
		s.log.Warn("the topic crashed over an extension that the server had announced; it is not used any more", "extension", p.name, "event", p.event, "error", cause)
	}
}
