package channel

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// gorilla can only compress without context takeover. A server may agree to
// compress with it all the same; then there must be a connection without.
func TestCompressionThatCannotBeDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := wstestListener(t)
		offered := make(chan string, 10)
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			offer := r.Header.Get("Sec-Websocket-Extensions")
			offered <- offer
			if offer == "" {
				ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
				if err == nil {
					_, _, _ = ws.ReadMessage()
					_ = ws.Close()
				}
				return
			}
			sum := acceptKey(r.Header.Get("Sec-Websocket-Key"))
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Sec-WebSocket-Accept", sum)
			w.Header().Set("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits=15")
			w.WriteHeader(http.StatusSwitchingProtocols)
		})}
		go func() { _ = srv.Serve(listener) }()
		socket, err := Open(Config{URL: "ws://localhost/socket", NetDial: listener.DialContext})
		require.NoError(t, err)
		require.NoError(t, socket.Connected(t.Context()))
		require.NotEmpty(t, <-offered)
		require.Empty(t, <-offered)
		require.NoError(t, socket.Close())
		require.NoError(t, srv.Close())
	})
}

// endless answers connections with head and then one line for ever, as slowly as it is
// told, and returns how many bytes were taken of each answer.
func endless(t *testing.T, cfg *Config, head, line string, pause time.Duration) (taken chan int) {
	listener := wstestListener(t)
	cfg.NetDial = listener.DialContext
	taken = make(chan int, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				written, _ := io.WriteString(conn, head)
				for {
					n, err := io.WriteString(conn, line)
					if written += n; err != nil {
						taken <- written
						return
					}
					time.Sleep(pause)
				}
			}()
		}
	}()
	return taken
}

func through(*http.Request) (*url.URL, error) { return url.Parse("http://proxy.test:3128") }

// Guards against "first record does not look like a TLS handshake" and nothing about what to do.
func TestTLSWhereThereIsNone(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	socket, err := Open(Config{URL: "wss" + strings.TrimPrefix(srv.URL, "http")})
	require.NoError(t, err)
	defer func() { require.NoError(t, socket.Close()) }()
	require.Eventually(t, func() bool { return socket.Err() != nil }, time.Minute, time.Millisecond)
	require.ErrorContains(t, socket.Err(), "there is no TLS at this port: write ws instead of wss, or the port of what has it")
}

func TestTLSWithACertificateAuthorityOfOnesOwn(t *testing.T) {
	srv := httptest.NewUnstartedServer(echo(t, websocket.Upgrader{}))
	srv.Config.ErrorLog = discardLog()
	srv.StartTLS()
	defer srv.Close()
	authorities := x509.NewCertPool()
	authorities.AddCert(srv.Certificate())
	cfg := Config{URL: srv.URL, TLS: &tls.Config{RootCAs: authorities}}
	roundTrip(t, cfg, "hello")

	cfg.TLS = nil // the system's authorities do not know it
	socket, err := Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, socket.Close()) }()
	status, changed := socket.Status()
	for ; status.Err == nil; status, changed = socket.Status() {
		<-changed
	}
	var unknown x509.UnknownAuthorityError
	require.ErrorAs(t, status.Err, &unknown)
}

func TestProxy(t *testing.T) {
	srv := httptest.NewServer(echo(t, websocket.Upgrader{}))
	defer srv.Close()
	var connects atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Header.Get("Proxy-Authorization") == "" {
			http.Error(w, "not here", http.StatusProxyAuthRequired)
			return
		}
		connects.Add(1)
		target, err := net.Dial("tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer target.Close()
		w.WriteHeader(http.StatusOK)
		client, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		go func() { _, _ = io.Copy(client, target); _ = client.Close() }()
		_, _ = io.Copy(target, buffered)
	}))
	defer proxy.Close()
	proxyURL, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	proxyURL.User = url.UserPassword("u", "p")
	roundTrip(t, Config{URL: srv.URL, Proxy: http.ProxyURL(proxyURL)}, "hello")
	require.EqualValues(t, 1, connects.Load())
}

// Guards against an answer to CONNECT over which gorilla panics, and the process
// with it: one that has no reason phrase, which RFC 9112 allows.
func TestProxyThatRefuses(t *testing.T) {
	tests := []struct {
		name, answer, says string
	}{
		{name: "with a phrase", answer: "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", says: "Proxy Authentication Required"},
		{name: "without a phrase", answer: "HTTP/1.1 407\r\n\r\n", says: "the proxy refused and gave no readable reason"},
		{name: "no HTTP", answer: "go away\r\n\r\n", says: "malformed HTTP"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := wstestListener(t)
				go func() {
					for {
						conn, err := listener.Accept()
						if err != nil {
							return
						}
						if _, err = http.ReadRequest(bufio.NewReader(conn)); err == nil {
							_, _ = io.WriteString(conn, tt.answer)
						}
						_ = conn.Close()
					}
				}()
				proxy := &url.URL{Scheme: "http", Host: "proxy.test:3128", User: url.UserPassword("u", "s3cret")}
				socket, err := Open(Config{URL: "ws://phoenix.test/socket", Proxy: http.ProxyURL(proxy), NetDial: listener.DialContext})
				require.NoError(t, err)
				time.Sleep(time.Minute) // it keeps trying
				require.ErrorContains(t, socket.Err(), tt.says)
				require.NotContains(t, socket.Err().Error(), "s3cret")
				require.Greater(t, listener.Dialed(), 3)
				require.NoError(t, socket.Close())
				require.Zero(t, listener.Open())
			})
		})
	}
}

// Small messages go out plain, large ones compressed, and what comes back
// compressed is understood.
func TestDeflate(t *testing.T) {
	tests := []struct {
		name     string
		server   bool // it compresses
		client   bool
		repeated int
		most     int64 // bytes on the wire, both ways
		least    int64
	}{
		{name: "large", server: true, client: true, repeated: 1 << 20, least: 1000, most: 100_000},
		{name: "small", server: true, client: true, repeated: 4000, least: 4000, most: 6000},
		{name: "server declines", client: true, repeated: 1 << 20, least: 2 << 20, most: 3 << 20},
		{name: "not offered", server: true, repeated: 1 << 20, least: 2 << 20, most: 3 << 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(echo(t, websocket.Upgrader{EnableCompression: tt.server}))
			defer srv.Close()
			var wire atomic.Int64
			cfg := Config{URL: srv.URL, DisableCompression: !tt.client}
			cfg.NetDial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				return countingConn{conn, &wire}, err
			}
			roundTrip(t, cfg, strings.Repeat("x", tt.repeated))
			require.Greater(t, wire.Load(), tt.least)
			require.Less(t, wire.Load(), tt.most)
		})
	}
}

type countingConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c countingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (c countingConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}
