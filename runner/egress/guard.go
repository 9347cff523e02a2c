package egress

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// Config configures a [Guard]. The zero value is ready to use.
type Config struct {
	Policy Policy
	Limits Limits
	// OwnPort returns the port that the worker listens at, 0 for none: no job connects to it, whatever the policy says. Nil for none.
	OwnPort func() int
	// Resolver resolves names. Defaults to the system's.
	Resolver *net.Resolver
}

// Limits bound a run. A field that is 0 has its default.
type Limits struct {
	// RunBytes are those of all bodies that a run sends and receives, after decompression. Defaults to 1 GiB; negative for no limit.
	RunBytes int64
	// ResponseBytes are those of the body of one response, after decompression. Defaults to 64 MiB.
	ResponseBytes int64
	// WaitingBytes are those of the calls that wait or are under way, each counting 4 KiB beside its body. Defaults to 64 MiB.
	WaitingBytes int64
	// Requests are those of a run, redirects among them. Defaults to 100,000.
	Requests int
	// Connections are those that a run opens. Defaults to 10,000.
	Connections int
	// AtOnce are the requests that are sent and not answered yet; others wait. One whose body the job has not written on for a
	// second does not count. Defaults to 16.
	AtOnce int
	// Open are the connections that are open at once, idle ones among them; others wait 10 s for one to be closed. Defaults to 128.
	Open int
	// Exchange is how long one may take, from the connection to the last byte. Defaults to 10 minutes.
	Exchange time.Duration
}

func (l Limits) filled() Limits {
	l.RunBytes = cmp.Or(l.RunBytes, 1<<30)
	l.ResponseBytes = cmp.Or(l.ResponseBytes, 64<<20)
	l.WaitingBytes = cmp.Or(l.WaitingBytes, 64<<20)
	l.Requests = cmp.Or(l.Requests, 100_000)
	l.Connections = cmp.Or(l.Connections, 10_000)
	l.AtOnce = cmp.Or(l.AtOnce, 16)
	l.Open = cmp.Or(l.Open, 128)
	l.Exchange = cmp.Or(l.Exchange, 10*time.Minute)
	return l
}

// Guard keeps the runs of a worker to a policy, and counts for all.
type Guard struct {
	cfg Config

	mu    sync.Mutex
	stats Stats
}

// Stats are what a [Guard] has counted since it was made.
type Stats struct {
	// Connections are by what became of them.
	Connections map[Connection]uint64
	// Requests are by how they ended.
	Requests map[Ending]uint64
	// Sent and Received are the bytes of bodies, after decompression.
	Sent, Received uint64
}

// Connection is a kind of attempt to connect.
type Connection struct {
	Class   Class
	Outcome Outcome
}

// Outcome is what became of an attempt to connect.
type Outcome string

// The outcomes.
const (
	Opened  Outcome = "opened"
	Refused Outcome = "refused" // by the policy, or a limit
	Failed  Outcome = "failed"  // nobody was there, or no name server knew the name
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Opened, Refused, Failed} }

// Ending is how a request ended.
type Ending string

// The endings.
const (
	Answered   Ending = "answered"
	Kept       Ending = "refused" // may not go there
	Limited    Ending = "limited" // a limit struck
	Unanswered Ending = "failed"  // anything else: the network's, the server's, the job's, or the end of the run
)

// Endings returns all endings.
func Endings() []Ending { return []Ending{Answered, Kept, Limited, Unanswered} }

// New returns a Guard.
func New(cfg Config) *Guard {
	cfg.Limits = cfg.Limits.filled()
	return &Guard{cfg: cfg, stats: Stats{Connections: make(map[Connection]uint64), Requests: make(map[Ending]uint64)}}
}

// Stats returns what was counted.
func (g *Guard) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	stats := g.stats
	stats.Connections, stats.Requests = maps.Clone(stats.Connections), maps.Clone(stats.Requests)
	return stats
}

func (g *Guard) count(change func(*Stats)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.stats)
}

// Open returns the traffic of one run. tell is given a sentence for people when something is refused, once for each
// host and reason; it may be called concurrently. Close the traffic.
func (g *Guard) Open(tell func(string)) *Traffic {
	t := &Traffic{guard: g, limits: g.cfg.Limits, tell: tell, told: make(map[string]bool), open: make(map[*conn]bool)}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.turns = make(chan struct{}, t.limits.AtOnce)
	t.full = make(chan struct{}, t.limits.AtOnce)
	t.large = make(chan struct{}, 1)
	return t
}

// refuses returns why an address is not dialled for a name, nil if it is.
func (g *Guard) refuses(name string, at netip.AddrPort) *refusal {
	if g.cfg.OwnPort != nil && int(at.Port()) == g.cfg.OwnPort() && ofThisMachine(at.Addr()) {
		return &refusal{why: "the worker itself listens there"}
	}
	return g.cfg.Policy.refuses(name, at.Addr())
}

func ofThisMachine(at netip.Addr) bool {
	at = plain(at)
	own, err := net.InterfaceAddrs()
	if err != nil || ClassOf(at) == Loopback {
		return true
	}
	for _, one := range own {
		if network, ok := one.(*net.IPNet); ok && network.IP.Equal(at.AsSlice()) {
			return true
		}
	}
	return false
}

// String says why, and what lets jobs there.
func (r *refusal) String() string {
	if r.list == "" {
		return r.why
	}
	list := r.list
	if strings.ContainsAny(list, "*!") { // which mean something to a shell
		list = "'" + list + "'"
	}
	return fmt.Sprintf("refused by --egress (%s); to allow it: --egress %s", r.why, list)
}
