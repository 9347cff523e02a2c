package channel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// version is the serializer spoken here. A Phoenix server that is not told
// assumes 1.0.0, whose frames are objects.
const version = "2.0.0"

// The sizes of the websocket's buffers. A message larger than the second goes
// out in fragments of that size, with a system call for each.
const (
	readBuffer  = 16 << 10
	writeBuffer = 32 << 10
)

// maxHandshake is how much is read up to the end of an upgrade: certificates, what a proxy
// says, the headers of the answer. A hundredth of it is usual.
const maxHandshake = 256 << 10

var errHandshake = errors.New("the handshake brought more than 256 KiB and no websocket; check what answers at this URL, and the proxy")

// dialer makes websocket connections to one endpoint.
type dialer struct {
	cfg      *Config
	endpoint *url.URL
	// plain is set once the server agreed to a compression that gorilla cannot
	// do, after which none is offered.
	plain atomic.Bool
}

// dial returns a new connection. Its error is a *DialError, unless ctx ended.
// No connection is left open when it fails.
func (d *dialer) dial(ctx context.Context) (*websocket.Conn, error) {
	// This is no deadline: gorilla would set that on the connection as well, and the error would depend
	// on which of the two came first.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := time.AfterFunc(d.cfg.HandshakeTimeout, func() {
		cancel(fmt.Errorf("no connection within %v", d.cfg.HandshakeTimeout))
	})
	defer timeout.Stop()

	target, err := d.target(ctx)
	if err != nil {
		return nil, d.failed(ctx, nil, err)
	}
	var guard connGuard
	ws := websocket.Dialer{
		NetDialContext:    guard.dial(d.cfg.NetDial),
		Proxy:             d.cfg.Proxy,
		TLSClientConfig:   d.cfg.TLS,
		ReadBufferSize:    readBuffer,
		WriteBufferSize:   writeBuffer,
		EnableCompression: !d.cfg.DisableCompression && !d.plain.Load(),
	}
	conn, res, err := handshake(ctx, &ws, target, d.cfg.Header) //nolint:bodyclose // gorilla needs no closing of it
	released := guard.release()
	if err != nil {
		if res != nil && res.StatusCode == http.StatusSwitchingProtocols && !errors.Is(err, websocket.ErrBadHandshake) {
			d.plain.Store(true)
		}
		if res == nil && guard.isSpent() {
			err = errHandshake // gorilla's error does not always wrap it
		}
		return nil, d.failed(ctx, res, err)
	}
	if !released {
		_ = conn.Close()
		return nil, d.failed(ctx, nil, context.Cause(ctx))
	}
	return conn, nil
}

// handshake is gorilla's dial without its panic: gorilla 1.5.3 panics when a proxy refuses
// without a reason in words.
func handshake(ctx context.Context, ws *websocket.Dialer, target string, header http.Header) (conn *websocket.Conn, res *http.Response, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("the proxy refused and gave no readable reason (%v)", fault)
		}
	}()
	return ws.DialContext(ctx, target, header)
}

// target returns the URL to dial, with fresh parameters.
func (d *dialer) target(ctx context.Context) (string, error) {
	params, err := d.cfg.Params(ctx)
	if err != nil {
		return "", fmt.Errorf("the socket parameters: %w", err)
	}
	u := *d.endpoint
	query := u.Query()
	maps.Copy(query, params)
	query.Set("vsn", version)
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// failed makes the error of a dial. If the context has ended, its cause is the error, for the network
// reports that in many ways.
func (d *dialer) failed(ctx context.Context, res *http.Response, err error) error {
	e := &DialError{URL: redact(d.endpoint), Err: err}
	switch {
	case res != nil && res.StatusCode != http.StatusSwitchingProtocols:
		e.Status, e.Err = res.StatusCode, nil
		body := make([]byte, 200)
		n, _ := res.Body.Read(body) // gorilla has read it into memory
		e.Body = string(body[:n])
	case ctx.Err() != nil:
		e.Err = context.Cause(ctx)
	}
	return e
}

// redact returns the URL without its query, which holds tokens.
func redact(u *url.URL) string {
	bare := *u
	bare.RawQuery = ""
	return bare.String()
}

// connGuard closes the network connection of a dial when the dial's context ends, which gorilla does
// not look at once it is connected. Until release, it bounds how much is read from the connection.
type connGuard struct {
	stop func() bool
	conn *bounded
}

func (g *connGuard) dial(netDial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := netDial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		g.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
		g.conn = &bounded{Conn: conn, left: maxHandshake}
		return g.conn, nil
	}
}

// isSpent reports whether the bound was reached.
func (g *connGuard) isSpent() bool { return g.conn != nil && g.conn.left == 0 }

// release ends the guard and its bound, and reports whether the connection is still open.
func (g *connGuard) release() bool {
	if g.stop == nil || !g.stop() {
		return false
	}
	g.conn.left = unbounded
	return true
}

// unbounded, as bounded.left, sets no bound.
const unbounded = -1

// bounded is a connection from which only left bytes can be read. One goroutine at a time reads it.
type bounded struct {
	net.Conn

	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == unbounded {
		return b.Conn.Read(p)
	}
	if b.left == 0 {
		return 0, errHandshake
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
