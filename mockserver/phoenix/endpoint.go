package phoenix

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Config are the options of an [Endpoint]. Only App is required.
type Config struct {
	App App
	// IdleTimeout is how long a client may be silent before its socket is
	// closed with code 1000. Defaults to 60 s, as in Phoenix.
	IdleTimeout time.Duration
	// MaxFrame is the size of the largest message taken, in bytes, before
	// decompression and after it, as with Cowboy. A larger one drops the
	// connection without a close frame. Defaults to 11,000,000, which is
	// Lightning's; Phoenix itself has no limit.
	MaxFrame int64
	// MaxTopics is how many topics one socket can have joined. Defaults to
	// 100, as in Phoenix from 1.7.24 and 1.8.9 on.
	MaxTopics int
	// Transcript takes a copy of every message. Defaults to nil: none is kept.
	Transcript *Transcript
	// Faults decides what goes wrong. Defaults to nil: nothing.
	Faults Faults
	// Logger defaults to discarding.
	Logger *slog.Logger
}

// Endpoint is the http.Handler of a Phoenix websocket path.
type Endpoint struct {
	cfg      Config
	upgrader websocket.Upgrader
	done     sync.WaitGroup // one for each request being served
	stop     chan struct{}  // closed by Close

	mu      sync.Mutex // guards what follows
	sockets map[*socket]struct{}
	lastID  int
	closed  bool
	down    time.Time // until then no client is accepted
}

// NewEndpoint returns an endpoint. It has no goroutine of its own; each socket
// has one beside that of its request.
func NewEndpoint(cfg Config) (*Endpoint, error) {
	if cfg.App == nil {
		return nil, errors.New("a phoenix endpoint needs an App to serve: set Config.App")
	}
	if cfg.IdleTimeout <= 0 {
		cfg.IdleTimeout = 60 * time.Second
	}
	if cfg.MaxFrame <= 0 {
		cfg.MaxFrame = 11_000_000
	}
	if cfg.MaxTopics <= 0 {
		cfg.MaxTopics = 100
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Endpoint{
		cfg: cfg,
		upgrader: websocket.Upgrader{
			EnableCompression: true,
			Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
				refuse(w, status, reason.Error())
			},
		},
		stop:    make(chan struct{}),
		sockets: make(map[*socket]struct{}),
	}, nil
}

// Sockets returns how many clients are connected.
func (e *Endpoint) Sockets() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sockets)
}

// Close closes every socket with code 1012, as a draining Phoenix does, and
// returns when all are gone, a second later if a client does not answer.
// Later requests are refused with 503.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	if !e.closed {
		close(e.stop)
	}
	e.closed = true
	open := e.openLocked("")
	e.mu.Unlock()
	for _, s := range open {
		s.shut(websocket.CloseServiceRestart)
	}
	e.done.Wait()
	return nil
}

// enter counts a request in, unless the endpoint is closed.
func (e *Endpoint) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.done.Add(1)
	return true
}

// add gives the socket its number and makes Close see it. It reports false if
// Close or Restart came first.
func (e *Endpoint) add(s *socket) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || time.Now().Before(e.down) {
		return false
	}
	e.lastID++
	s.id = e.lastID
	e.sockets[s] = struct{}{}
	return true
}

func (e *Endpoint) remove(s *socket) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sockets, s)
}
