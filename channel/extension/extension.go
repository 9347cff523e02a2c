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
// An extension over which a topic crashes all the same is switched off for the
// life of the set, with one warning. A failed push never means more than that it
// failed: every extension must have a fallback.
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

// ErrNotAgreed says that an extension was not agreed on with the join that counts
// just now, or was switched off since. Nothing was sent.
var ErrNotAgreed = errors.New("the extension was not agreed on with the server")

// Set is the extensions that a client offers. Its methods may be called
// concurrently. A nil Set offers none.
type Set struct {
	log *slog.Logger

	mu  sync.Mutex
	on  []string
	off []string // switched off after a crash
}

// NewSet returns a set that offers the extensions with these names.
func NewSet(log *slog.Logger, names ...string) *Set {
	on := slices.Clone(names)
	slices.Sort(on)
	return &Set{log: log, on: slices.Compact(on)}
}

// Offer returns what to offer at a join, of the extensions that belong to its
// topic: the value of "extensions" in the payload. It is nil when there is none,
// and the key is to be left out then.
func (s *Set) Offer(names ...string) map[string]int {
	var offer map[string]int
	for _, name := range names {
		if !s.isOn(name) {
			continue
		}
		if offer == nil {
			offer = make(map[string]int)
		}
		offer[name] = version
	}
	return offer
}

func (s *Set) isOn(name string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.on, name)
}

// Off returns the extensions that were switched off, in the order in which they
// were.
func (s *Set) Off() []string {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.off)
}

// Agreed reports whether the extension was agreed on with this join, which may be
// nil, and if so stores the server's terms in what terms points to, unless that is nil.
// Terms that cannot be read are none.
func (s *Set) Agreed(join *channel.Join, name string, terms any) bool {
	if join == nil || !s.isOn(name) {
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

// Push sends an event of an extension under the join. Its error wraps
// [ErrNotAgreed], or is that of [channel.Join.Push].
func (s *Set) Push(ctx context.Context, join *channel.Join, name, event string, payload any) (channel.Reply, error) {
	if !s.Agreed(join, name, nil) {
		return channel.Reply{}, fmt.Errorf("%s: %w", name, ErrNotAgreed)
	}
	reply, err := join.Push(ctx, event, payload)
	if errors.Is(err, channel.ErrCrashed) {
		s.SwitchOff(name, event, err)
	}
	return reply, err
}

// SwitchOff ends the use of an extension over which a topic has crashed: for those
// that ride on an event of the protocol. Push sees to it by itself.
func (s *Set) SwitchOff(name, event string, cause error) {
	if s == nil {
		return
	}
	s.mu.Lock()
	i := slices.Index(s.on, name)
	if i >= 0 {
		s.on = slices.Delete(s.on, i, i+1)
		s.off = append(s.off, name)
	}
	s.mu.Unlock()
	if i >= 0 {
		s.log.Warn("the topic crashed over an extension that the server had announced; it is not used any more", "extension", name, "event", event, "error", cause)
	}
}
