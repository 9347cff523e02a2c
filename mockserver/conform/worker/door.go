package worker

import (
	"bufio"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// door is what a worker connects to: it counts the requests for a socket, may refuse them, and leads on
// to the server.
type door struct {
	inner    http.Handler
	server   *http.Server
	listener net.Listener
	served   chan struct{}

	mu     sync.Mutex // guards what follows
	knocks []knock
	other  http.Handler  // where it leads instead, if not nil
	more   chan struct{} // closed with the next knock
	refuse func(n int) int
}

// knock is one request for a socket.
type knock struct {
	at     time.Time
	path   string
	query  url.Values
	status int // that it was refused with, by the case or by the server; 0 while it was not
	byCase bool
	// extensions are those of WebSocket that it offers.
	extensions string
}

// openDoor serves the handler on the listener. The function says with which status the n-th request is
// refused, from 0; 0 lets it through.
func openDoor(l net.Listener, inner http.Handler, refuse func(n int) int) *door {
	d := &door{inner: inner, listener: l, served: make(chan struct{}), more: make(chan struct{}), refuse: refuse}
	d.server = &http.Server{Handler: d, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(d.served)
		_ = d.server.Serve(l) // until it is closed
	}()
	return d
}

// ServeHTTP implements [http.Handler].
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, status, inner := d.knock(r)
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	inner.ServeHTTP(&upgrade{ResponseWriter: w, refused: func(status int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.knocks[n].status = status
	}}, r)
}

// upgrade tells with which status a request for a socket is refused.
type upgrade struct {
	http.ResponseWriter
	refused func(status int)
}

var _ http.Hijacker = (*upgrade)(nil)

// WriteHeader implements [http.ResponseWriter].
func (u *upgrade) WriteHeader(status int) {
	u.refused(status)
	u.ResponseWriter.WriteHeader(status)
}

// Hijack implements [http.Hijacker], for the upgrade.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(u.ResponseWriter).Hijack()
}

// socketPath is where the server has its sockets.
const socketPath = "/worker/websocket"

// lead has the door lead elsewhere from now on.
func (d *door) lead(to http.Handler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.other = to
}

func (d *door) knock(r *http.Request) (n, status int, inner http.Handler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if inner = d.other; inner == nil {
		inner = d.inner
	}
	n = len(d.knocks)
	if d.refuse != nil {
		status = d.refuse(n)
	}
	d.knocks = append(d.knocks, knock{
		at: time.Now(), path: r.URL.Path, query: r.URL.Query(), status: status, byCase: status != 0,
		extensions: r.Header.Get("Sec-WebSocket-Extensions"),
	})
	close(d.more)
	d.more = make(chan struct{})
	return n, status, inner
}

// requests returns the requests so far, and a channel that is closed with the next.
func (d *door) requests() ([]knock, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.knocks), d.more
}

// shut lets nobody in any more: who dials is refused, as where no server is.
func (d *door) shut() {
	_ = d.listener.Close()
	<-d.served
}

func (d *door) close() {
	_ = d.server.Close()
	<-d.served
}
