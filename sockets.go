package phxworker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"net/url"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/runner"
)

const (
	// topicsPerSocket is what Phoenix allows unless it is told otherwise. A
	// server that allows less says so by refusing a join.
	topicsPerSocket = 100
	// socketIdle is how long a further socket is kept without a run.
	socketIdle = time.Minute
)

// sockets carries the topics of a worker's runs. The first socket has the queue
// as well; further ones are opened when those before are full, and closed when
// they have been idle. Runs do not notice.
type sockets struct {
	open func() (*channel.Socket, error)
	log  *slog.Logger

	mu      sync.Mutex
	carry   []*carrier // the first is the queue's
	made    int        // connections of those that were retired
	lost    map[channel.Cause]uint64
	closing sync.WaitGroup
}

type carrier struct {
	socket *channel.Socket
	topics int  // joined, or about to be
	joined int  // let in by the server, and not left
	proven bool // the server has let one in
	most   int
	idle   *time.Timer // runs while a further socket has no topics
}

func newSockets(first *channel.Socket, open func() (*channel.Socket, error), log *slog.Logger) *sockets {
	return &sockets{open: open, log: log, lost: make(map[channel.Cause]uint64), carry: []*carrier{{socket: first, topics: 1, joined: 1, proven: true, most: topicsPerSocket}}}
}

// count returns how many sockets there are, how many connections they and those before them made, and how these were
// lost.
func (s *sockets) count() (sockets, made int, lost map[channel.Cause]uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, lost = s.made, maps.Clone(s.lost)
	for _, c := range s.carry {
		made += c.count(lost)
	}
	return len(s.carry), made, lost
}

// count returns how many connections the socket made, and adds how they were lost.
func (c *carrier) count(lost map[channel.Cause]uint64) (made int) {
	for cause, n := range c.socket.Stats().Lost {
		lost[cause] += n
	}
	status, _ := c.socket.Status()
	return status.Connections
}

// seat is a run's place on one of the sockets.
type seat struct {
	sockets *sockets
	carrier *carrier // nil before the join and after a failed one
}

var _ runner.Joiner = (*seat)(nil)

// Join joins the topic on a socket that has room for it.
func (s *seat) Join(ctx context.Context, name string, payload any) (*channel.Topic, error) {
	for {
		c, err := s.sockets.reserve()
		if err != nil {
			return nil, err
		}
		topic, err := c.socket.Join(ctx, name, payload)
		again := s.sockets.answered(c, err)
		switch {
		case err == nil:
			s.carrier = c
			return topic, nil
		case !again:
			return nil, err
		}
	}
}

// free frees the place. The topic must have been left.
func (s *seat) free() {
	if s.carrier == nil {
		return
	}
	s.sockets.mu.Lock()
	defer s.sockets.mu.Unlock()
	s.carrier.joined--
	s.sockets.freeLocked(s.carrier)
	s.carrier = nil
}

// reserve counts a topic on a socket that has room, if need be on a new one.
func (s *sockets) reserve() (*carrier, error) {
	opened := 0
	defer func() { // after the lock is free: the log may look at the worker
		if opened > 0 {
			s.log.Info("all sockets are full; one more was opened", "sockets", opened)
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.carry, func(c *carrier) bool { return c.topics < c.most })
	if i < 0 {
		socket, err := s.open()
		if err != nil {
			return nil, err
		}
		s.carry = append(s.carry, &carrier{socket: socket, most: topicsPerSocket})
		i, opened = len(s.carry)-1, len(s.carry)
	}
	c := s.carry[i]
	if c.idle != nil {
		c.idle.Stop()
		c.idle = nil
	}
	c.topics++
	return c, nil
}

// answered counts a topic that the server let in, or takes it off again, and reports
// whether another try may do better. A socket that is full has learned its limit: what it
// carries now, and one at least, for those that filled it may have left while
// the refusal was on its way.
func (s *sockets) answered(c *carrier, err error) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		c.joined++
		c.proven = true
		return false
	}
	var refused *channel.RefusedError
	full := errors.As(err, &refused) && refused.NoRoom()
	if full {
		c.most = min(c.most, max(c.joined, 1))
	}
	s.freeLocked(c)
	return full && (c.proven || c.topics > 0)
}

func (s *sockets) freeLocked(c *carrier) {
	c.topics--
	if c.topics == 0 && c != s.carry[0] {
		c.idle = time.AfterFunc(socketIdle, func() { s.retire(c) })
	}
}

// retire closes a socket that is still idle.
func (s *sockets) retire(c *carrier) {
	s.mu.Lock()
	i := slices.Index(s.carry, c)
	if i < 0 || c.topics > 0 {
		s.mu.Unlock()
		return
	}
	s.carry = slices.Delete(s.carry, i, i+1)
	s.made += c.count(s.lost)
	s.closing.Add(1)
	s.mu.Unlock()
	defer s.closing.Done()
	_ = c.socket.Close()
}

// close closes the further sockets. No seat may be in use any more.
func (s *sockets) close() {
	s.mu.Lock()
	further := s.carry[1:]
	s.carry = s.carry[:1]
	for _, c := range further {
		if c.idle != nil {
			c.idle.Stop()
		}
	}
	s.mu.Unlock()
	for _, c := range further {
		_ = c.socket.Close()
	}
	s.closing.Wait()
}

// readLimits are for what is smaller than a run's input, and many times as large as it ever is: a
// server, or who is in its place, is not to fill the memory. The largest plan is
// 11,000,000 bytes; more is read to say so.
var readLimits = map[string]int64{
	"fetch:dataclip": math.MaxInt64, "fetch:plan": 12 << 20, "claim": 8 << 20, "fetch:credential": 2 << 20, "": 1 << 20,
}

// dial opens a socket to the server.
func (w *Worker) dial() (*channel.Socket, error) {
	way := &w.cfg.Transport
	return channel.Open(channel.Config{
		URL:       w.cfg.URL,
		Params:    socketParams(w.cfg.Secret, w.id, w.cfg.Version),
		ReadLimit: way.ReadLimit, ReadLimits: readLimits,
		RetryRefused: true, // a run that was claimed must not be given up over a proxy's 403
		TLS:          way.TLS, Proxy: way.Proxy, NetDial: way.NetDial,
		Logger: w.log,
	})
}

// apiVersion is the version of Lightning's worker protocol that this module
// speaks.
const apiVersion = "1.2"

// socketParams returns what makes the parameters of each dial. Each has a token of its own, by
// which Lightning knows a worker: HS256 over the bytes of the secret. It requires these three
// claims and asks for no expiry.
func socketParams(secret, workerID, version string) func(context.Context) (url.Values, error) {
	return func(context.Context) (url.Values, error) {
		claims := jwt.MapClaims{"iss": "urn:openfn:worker", "iat": time.Now().Unix(), "worker_id": workerID}
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
		if err != nil {
			return nil, err
		}
		return url.Values{"token": {token}, "api_version": {apiVersion}, "worker_version": {version}}, nil
	}
}

const modulePath = "github.com/phxworker/phxworker"

// Version returns the version of this module in the running program, "dev" in a
// checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == modulePath && module.Version != "" && module.Version != "(devel)" {
			return module.Version
		}
	}
	return "dev"
}
