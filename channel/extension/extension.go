// Package extension lets a client use events that not every server knows.
//
// A Phoenix channel crashes over an event that it does not know, so a client must not try one. Instead
// it offers extensions in the payload of each join, and the server's reply names those that it knows as
// well:
//
//	phx_join  {…, "extensions": {"lease": 1}}
//	reply     {…, "extensions": {"lease": {"v": 1, "duration_ms": 1200000}}}
//
// An extension that both have named is agreed on, for this topic and this join only. [Set.Push] sends
// nothing under another join, so that nothing that waited for a reconnect reaches a server that never
// agreed. A server without extensions ignores the key and sees nothing more.
//
// An extension over which a topic crashes all the same is switched off: the set never offers it again,
// and logs one warning. It is blamed for a crash only if none of its pushes was ever answered, and if
// its push was the only one under way or this is the fifth such crash. Joins that have agreed on it
// before go on using it while they last, for the server counts on that.
//
// A push that fails means no more than that. Every use of an extension must have a fallback.
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

// ErrNotAgreed says that an extension was not agreed on with a join, so that nothing was sent.
var ErrNotAgreed = errors.New("the extension was not agreed on with the server")

// Set is the extensions that a client offers. Its methods may be called concurrently. A nil Set offers
// none.
type Set struct {
	log *slog.Logger

	mu      sync.Mutex
	names   []string
	off     []crash
	out     map[*push]bool // under way
	records map[string]*record
}

// record is what is known of an extension.
type record struct {
	answered bool // a push of it was answered at some time
	crashes  int  // how many times a topic has crashed while a push of it was under way
}

// maxCrashes is the number of crashes that cannot be chance any more.
const maxCrashes = 5

// crash is an extension that was switched off, and when its topic crashed.
type crash struct {
	name string
	at   time.Time
}

// push is a push that is under way.
type push struct {
	join        *channel.Join
	name, event string
}

// NewSet returns a set that offers the extensions with these names.
func NewSet(log *slog.Logger, names ...string) *Set {
	s := &Set{log: log, names: slices.Clone(names), out: make(map[*push]bool), records: make(map[string]*record)}
	for _, name := range names {
		s.records[name] = new(record)
	}
	return s
}

// Offer returns the value of "extensions" in the payload of a join, where names are the extensions of
// its topic. When it is nil, leave the key out.
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

// suspects returns the extensions that are about to be switched off. A topic that has crashed is joined
// again, and asks for its offer, before the goroutines that wait for its answers have run.
func (s *Set) suspects() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.out {
		if _, lost := p.join.End(); errors.Is(lost, channel.ErrCrashed) && s.records[p.name].isCause(p.join) {
			names = append(names, p.name)
		}
	}
	return names
}

// offered reports whether a join that began at the time asked has offered the extension.
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

// Off returns the extensions that were switched off, in that order.
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

// Agreed reports whether the extension was agreed on with this join, which may be nil. If terms is not
// nil, it unmarshals the server's terms into it; with terms that cannot be read, nothing is agreed on.
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

// Milliseconds returns the duration that the other side has named. The number may be anything: below
// zero it is 0, and a year is the most.
func Milliseconds(n float64) time.Duration {
	const year = 365 * 24 * time.Hour
	if !(n > 0) { // also for NaN
		return 0
	}
	return time.Duration(min(n, float64(year/time.Millisecond)) * float64(time.Millisecond))
}

// Push sends an event of an extension under the join, or an event of the protocol to which the
// extension adds something. The error wraps [ErrNotAgreed], or is that of [channel.Join.Push].
func (s *Set) Push(ctx context.Context, join *channel.Join, name, event string, payload any) (channel.Reply, error) {
	if !s.Agreed(join, name, nil) {
		return channel.Reply{}, fmt.Errorf("%s: %w", name, ErrNotAgreed)
	}
	p := &push{join: join, name: name, event: event}
	s.note(p)
	reply, err := join.Push(ctx, event, payload)
	if s.noteOutcome(p, err) {
		s.switchOff(p)
	}
	s.mu.Lock()
	delete(s.out, p)
	s.mu.Unlock()
	return reply, err
}

// noteOutcome notes the outcome of a push, and reports whether the server has crashed over it.
func (s *Set) noteOutcome(p *push, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[p.name]
	switch {
	case err == nil, errors.As(err, new(*channel.RefusedError)):
		r.answered = true
	case errors.Is(err, channel.ErrCrashed):
		cause := r.isCause(p.join)
		r.crashes++
		return cause
	}
	return false
}

// isCause reports whether the extension is blamed for the crash of a join.
func (r *record) isCause(join *channel.Join) bool {
	return !r.answered && (join.Unanswered() == 1 || r.crashes+1 >= maxCrashes)
}

// note notes a push that is about to be sent.
func (s *Set) note(p *push) {
	if _, lost := p.join.End(); lost != nil { // nothing will be sent
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out[p] = true
}

// switchOff ends the offer of the extension over which a join has crashed, with a warning the first
// time.
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
