package fault

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxStrikes is how many strikes are remembered.
const maxStrikes = 10_000

// Strike is one time that a rule struck.
type Strike struct {
	At     time.Time `json:"at"`
	Rule   int       `json:"rule"` // its number
	Action Action    `json:"action"`
	When   When      `json:"when"`
	Event  string    `json:"event"`
	Topic  string    `json:"topic,omitempty"`
	Run    string    `json:"run,omitempty"`
	Worker string    `json:"worker,omitempty"`
	Socket int       `json:"socket,omitempty"`
}

// Status is a rule and what has become of it.
type Status struct {
	Rule
	// Seen is how many messages it was for.
	Seen int
	// Struck is how many of them it struck.
	Struck int
}

// Set holds rules and the record of their strikes. The zero value is not usable;
// see [NewSet].
type Set struct {
	seed  uint64
	armed atomic.Bool // some rule may yet strike

	mu     sync.Mutex // guards what follows
	lastID int
	rules  []*rule // all, in the order they were added
	live   []*rule // those that may yet strike, likewise
	ring   []Strike
	next   int // where the next strike goes once the ring is full
	counts map[Action]int64
}

// rule is a Rule in a set. Only what is in Status besides the Rule changes.
type rule struct {
	Status
	chance map[string]*rand.PCG // by topic; nil if the rule leaves nothing to chance
}

// NewSet returns a set without rules. The seed decides what the rules with a
// probability strike.
func NewSet(seed uint64) *Set {
	return &Set{seed: seed, counts: make(map[Action]int64)}
}

// Seed returns the seed.
func (s *Set) Seed() uint64 { return s.seed }

// Add checks a rule, fills in its defaults and its number, and puts it behind
// the others. The error is an [*InvalidError].
//
// One for the event Now strikes at once: that strike is returned, and what the
// rule says is the caller's to do.
func (s *Set) Add(r Rule) (Rule, Strike, error) {
	r, err := r.checked()
	if err != nil {
		return r, Strike{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	r.ID = s.lastID
	added := &rule{Status: Status{Rule: r}}
	s.rules = append(s.rules, added)
	if r.Event == Now {
		added.Seen = 1
		return r, s.strikeLocked(added, &Message{Event: Now, Worker: r.Worker, Topic: topicOf(r.Run)}), nil
	}
	if r.Probability > 0 && r.Probability < 1 {
		added.chance = make(map[string]*rand.PCG)
	}
	s.live = append(s.live, added)
	s.armed.Store(true)
	return r, Strike{}, nil
}

func topicOf(run string) string {
	if run == "" {
		return ""
	}
	return runPrefix + run
}

// Remove takes out a rule and reports whether it was there. Its strikes stay on
// record.
func (s *Set) Remove(id int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := func(r *rule) bool { return r.ID == id }
	before := len(s.rules)
	s.rules = slices.DeleteFunc(s.rules, is)
	s.liveLocked(slices.DeleteFunc(s.live, is))
	return len(s.rules) < before
}

// Clear takes out all rules and returns how many there were.
func (s *Set) Clear() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.rules)
	s.rules = nil
	s.liveLocked(nil)
	return n
}

// Rules returns all rules, those that are used up among them, in the order in
// which they were added.
func (s *Set) Rules() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Status, len(s.rules))
	for i, r := range s.rules {
		out[i] = r.Status
	}
	return out
}

// Ask returns the rule that strikes the message and puts it on record; nil for
// nearly all messages. The rule must not be changed.
func (s *Set) Ask(m *Message) (*Rule, Strike) {
	if !s.armed.Load() {
		return nil, Strike{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.live {
		if !r.is(m) {
			continue
		}
		r.Seen++
		if r.Seen <= r.Skip || !r.strikes(s.seed, m.Topic) {
			continue
		}
		strike := s.strikeLocked(r, m)
		if r.Struck == r.Count {
			s.liveLocked(slices.DeleteFunc(s.live, func(other *rule) bool { return other == r }))
		}
		return &r.Rule, strike
	}
	return nil, Strike{}
}

// strikes draws whether the rule strikes.
func (r *rule) strikes(seed uint64, topic string) bool {
	if r.chance == nil {
		return true
	}
	source := r.chance[topic]
	if source == nil {
		name := fnv.New64a()
		_, _ = fmt.Fprint(name, r.ID, " ", topic) // a hash never fails
		source = rand.NewPCG(seed, name.Sum64())
		r.chance[topic] = source
	}
	return rand.New(source).Float64() < r.Probability
}

func (s *Set) strikeLocked(r *rule, m *Message) Strike {
	r.Struck++
	s.counts[r.Action]++
	strike := Strike{
		At: time.Now(), Rule: r.ID, Action: r.Action, When: r.When,
		Event: m.Event, Topic: m.Topic, Run: m.Run(), Worker: m.Worker, Socket: m.Socket,
	}
	if len(s.ring) < maxStrikes {
		s.ring = append(s.ring, strike)
		return strike
	}
	s.ring[s.next] = strike
	s.next = (s.next + 1) % maxStrikes
	return strike
}

func (s *Set) liveLocked(live []*rule) {
	s.live = live
	s.armed.Store(len(live) > 0)
}

// Strikes returns the last 10,000 strikes, oldest first.
func (s *Set) Strikes() []Strike {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(append([]Strike{}, s.ring[s.next:]...), s.ring[:s.next]...)
}

// Counts returns how many strikes there were of each action.
func (s *Set) Counts() map[Action]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}
