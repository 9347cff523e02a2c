package phoenix

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/mockserver/fault"
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
	cfg.IdleTimeout = cmp.Or(max(cfg.IdleTimeout, 0), 60*time.Second)
	cfg.MaxFrame = cmp.Or(max(cfg.MaxFrame, 0), 11_000_000)
	cfg.MaxTopics = cmp.Or(max(cfg.MaxTopics, 0), 100)
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

// ServeHTTP upgrades the request and serves the socket until it ends.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.enter() {
		refuse(w, http.StatusServiceUnavailable, "the server is closing")
		return
	}
	defer e.done.Done()
	if e.isDown() {
		hangUp(w)
		return
	}
	name, ok := e.admit(w, r)
	if !ok || !e.passUpgrade(w, r, name) {
		return
	}
	hijacked := &hijacker{ResponseWriter: w}
	conn, err := e.upgrader.Upgrade(hijacked, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	s := newSocket(e, conn, hijacked.wire, name, r.URL.Query())
	if !e.add(s) {
		_ = conn.Close()
		return
	}
	defer e.remove(s)
	s.run()
}

// admit answers a request that is not to be upgraded, or says who it comes from. The order is
// Phoenix's: first the serializer, then the token, then the upgrade. Only a request with no
// parameters at all is told first that this is a websocket.
func (e *Endpoint) admit(w http.ResponseWriter, r *http.Request) (name string, ok bool) {
	params := r.URL.Query()
	vsn, token := params.Get("vsn"), params.Get("token")
	switch {
	case r.Method != http.MethodGet:
		refuse(w, http.StatusBadRequest, "a websocket is opened by a GET")
		return "", false
	case vsn == "" && token == "" && !websocket.IsWebSocketUpgrade(r):
		refuseUpgrade(w, r)
		return "", false
	case vsn == "":
		refuse(w, http.StatusForbidden, "the parameter vsn is missing: this endpoint speaks serializer 2.0.0 only, so connect with vsn=2.0.0")
		return "", false
	case !strings.HasPrefix(vsn, "2.0."):
		refuse(w, http.StatusForbidden, "")
		return "", false
	}
	name, err := e.cfg.App.Connect(params)
	if err != nil {
		e.cfg.Logger.Warn("socket refused", "error", err)
		refuse(w, http.StatusUnauthorized, "Unauthorized")
		return "", false
	}
	if !websocket.IsWebSocketUpgrade(r) {
		refuseUpgrade(w, r)
		return "", false
	}
	return name, true
}

func refuseUpgrade(w http.ResponseWriter, r *http.Request) {
	refuse(w, http.StatusBadRequest, fmt.Sprintf("'connection' header must contain 'upgrade', got %q", r.Header.Values("Connection")))
}

// refuse answers with Phoenix's headers, which have no content type.
func refuse(w http.ResponseWriter, status int, body string) {
	w.Header()["Content-Type"] = nil
	w.Header().Set("Cache-Control", "max-age=0, private, must-revalidate")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) //nolint:gosec // what it quotes is a header that no page can set
}

// hijacker slips a [wire] under the websocket library.
type hijacker struct {
	http.ResponseWriter
	wire *wire
}

var _ http.Hijacker = (*hijacker)(nil)

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.wire = &wire{Conn: conn}
	return h.wire, rw, nil
}

// Kick closes the sockets of a client, or all if the name is empty, and returns
// how many. The code 1006 closes without a close frame. It does not wait
// for their end.
func (e *Endpoint) Kick(name string, code int) int {
	open := e.open(name)
	for _, s := range open {
		s.shut(frameCode(code))
	}
	return len(open)
}

// Stall has the sockets of a client, or all if the name is empty, handle nothing
// for the time given, and returns how many they are.
func (e *Endpoint) Stall(name string, d time.Duration) int {
	open := e.open(name)
	for _, s := range open {
		s.stall(d)
	}
	return len(open)
}

// Restart closes every socket as Kick does, and hangs up on every request for as
// long as it takes the server to be back.
func (e *Endpoint) Restart(code int, down time.Duration) {
	e.mu.Lock()
	e.down = time.Now().Add(down)
	open := e.openLocked("")
	e.mu.Unlock()
	for _, s := range open {
		s.shut(frameCode(code))
	}
}

func (e *Endpoint) isDown() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Now().Before(e.down)
}

func (e *Endpoint) open(name string) []*socket {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.openLocked(name)
}

func (e *Endpoint) openLocked(name string) []*socket {
	var open []*socket
	for s := range e.sockets {
		if name == "" || name == s.name {
			open = append(open, s)
		}
	}
	return open
}

func frameCode(code int) int {
	if code == fault.Abnormal {
		return noCode
	}
	return code
}

// errNotReading ends a connection whose client leaves everything unread.
var errNotReading = errors.New("the client does not read: over 64 MiB wait for it")
