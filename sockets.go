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
	// topicsPerSocket is what Phoenix allows by default. A server that allows fewer refuses a join.
	topicsPerSocket = 100
	// socketIdle is how long a further socket is kept without a topic.
	socketIdle = time.Minute
)

// sockets carries the topics of a worker's runs. The first socket has the queue as well. A further one
// is opened when all others are full, and closed when it has been idle.
type sockets struct {
	open func() (*channel.Socket, error)
	log  *slog.Logger

	mu      sync.Mutex
	carry   []*carrier // the first one has the queue
	made    int        // connections of the sockets that were retired
	lost    map[channel.Cause]uint64
	closing sync.WaitGroup
}

// carrier is one socket, with the count of its topics.
type carrier struct {
	socket *channel.Socket
	topics int         // joined, or being joined
	joined int         // joined
	proven bool        // a topic was joined at some time
	most   int         // topics that it may have
	idle   *time.Timer // retires a further socket that has no topics; nil while it has some
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

// seat is the room of one run on one of the sockets.
type seat struct {
	sockets *sockets
	carrier *carrier // nil unless the join has succeeded
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
		again := s.sockets.noteJoin(c, err)
		switch {
		case err == nil:
			s.carrier = c
			return topic, nil
		case !again:
			return nil, err
		}
	}
}

// free frees the seat. The topic must have been left.
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

// reserve counts a topic on a socket that has room, and opens a new socket if none has.
func (s *sockets) reserve() (*carrier, error) {
	opened := 0
	defer func() { // once the lock is free, for the handler of the log may ask for the worker's Stats
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

// noteJoin counts a topic that was joined, or frees its room, and reports whether to try again. A
// refusal for want of room tells the limit of the socket: the topics that it has now. The limit is at
// least one, for topics may have been left while the refusal was on its way.
func (s *sockets) noteJoin(c *carrier, err error) (again bool) {
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

// retire closes a further socket if it is still idle.
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

// readLimits are the limits of answers by event, so that no server can fill the memory. Each is many
// times what such an answer ever has. Only a run's input, the dataclip, has the limit of
// [Transport.ReadLimit]. The largest plan is 11,000,000 bytes; a little more is read to say so.
var readLimits = map[string]int64{
	"fetch:dataclip": math.MaxInt64, "fetch:plan": 12 << 20, "claim": 8 << 20, "fetch:credential": 2 << 20, "": 1 << 20,
}

// dial opens a socket to the server.
func (w *Worker) dial() (*channel.Socket, error) {
	transport := &w.cfg.Transport
	return channel.Open(channel.Config{
		URL:       w.cfg.URL,
		Params:    socketParams(w.cfg.Secret, w.id, w.cfg.Version),
		ReadLimit: transport.ReadLimit, ReadLimits: readLimits,
		RetryRefused: true, // a proxy's 403 must not end a run that was claimed
		TLS:          transport.TLS, Proxy: transport.Proxy, NetDial: transport.NetDial,
		Logger: w.log,
	})
}

// apiVersion is the version of Lightning's worker protocol that this module speaks.
const apiVersion = "1.2"

// socketParams returns the function that makes the parameters of each dial, with a fresh token.
// Lightning wants HS256 over the bytes of the secret and these three claims, and no expiry.
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

// Version returns the version of this module in the running program, "dev" in a checkout.
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
