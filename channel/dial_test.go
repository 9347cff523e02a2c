package channel

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
)

func TestParamsAreFreshAtEveryDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.URL = "http://localhost/socket/?shard=3"
		cfg.Header = http.Header{"X-Worker": {"w1"}}
		dials := 0
		cfg.Params = func(context.Context) (url.Values, error) {
			dials++
			if dials == 2 {
				return nil, errors.New("no token to be had")
			}
			return url.Values{"token": {fmt.Sprintf("t%d&", dials)}}, nil
		}
		s.open(cfg)
		p := s.accept()
		require.Equal(t, "/socket/websocket?shard=3&token=t1%26&vsn=2.0.0", p.request.URL.String())
		require.Equal(t, "w1", p.request.Header.Get("X-Worker"))
		require.Contains(t, p.request.Header.Get("Sec-WebSocket-Extensions"), "permessage-deflate")
		p.drop()
		require.Equal(t, "t3&", s.accept().request.URL.Query().Get("token"))
	})
}

func TestRefusedUpgrade(t *testing.T) {
	tests := []struct {
		name   string
		status int
		says   string
		refuse bool
	}{
		{name: "Lightning", status: 401, says: "check the token", refuse: true},
		{name: "Phoenix", status: 403, says: "check the token", refuse: true},
		{name: "wrong path", status: 404, says: "check the URL"},
		{name: "proxy", status: 502, says: "instead of a websocket"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.refuse.Store(int64(tt.status))
				cfg := s.config()
				cfg.Params = params("token", "s3cret")
				cfg.RetryRefused = true
				socket := s.open(cfg)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, err := socket.Join(ctx, "room:1", nil)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				var dial *DialError
				require.ErrorAs(t, err, &dial)
				require.Equal(t, tt.status, dial.Status)
				require.Equal(t, http.StatusText(tt.status)+"\n", dial.Body)
				require.Equal(t, tt.refuse, dial.Refused())
				require.Contains(t, err.Error(), tt.says)
				require.NotContains(t, err.Error(), "s3cret")

				status, _ := socket.Status()
				require.Equal(t, Connecting, status.State)
				require.ErrorAs(t, status.Err, &dial)
				require.Greater(t, status.Attempts, 2)
				require.Equal(t, map[Cause]uint64{CauseDial: uint64(status.Attempts)}, socket.Stats().Lost)
				require.Zero(t, s.listener.Open())

				// It never gave up.
				s.refuse.Store(0)
				require.NoError(t, socket.Connected(t.Context()))
				status, _ = socket.Status()
				require.Equal(t, Status{State: Connected, Connections: 1}, status)
			})
		})
	}
}

// A token that the server does not take is no reason to wait until the context ends; any
// other answer may be that of a server which restarts.
func TestARefusedTokenEndsAWaitingJoin(t *testing.T) {
	for status, ends := range map[int]bool{401: true, 403: true, 404: false, 429: false, 502: false, 503: false} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.refuse.Store(int64(status))
				socket := s.open(s.config())
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				_, err := socket.Join(ctx, "room:1", nil)
				dial, ok := errors.AsType[*DialError](err)
				require.True(t, ok, err)
				require.Equal(t, status, dial.Status)
				require.Equal(t, !ends, errors.Is(err, context.DeadlineExceeded))
				if !ends {
					return
				}
				require.Zero(t, time.Since(began))
				_, err = socket.Join(ctx, "room:1", nil) // the name is free, and the last dial was refused
				require.ErrorAs(t, err, new(*DialError))
				require.Zero(t, time.Since(began))

				s.refuse.Store(0) // the socket has gone on trying
				require.NoError(t, socket.Connected(ctx))
				joining := asyncJoin(socket, "room:1", nil)
				s.accept().join("room:1")
				require.NoError(t, (<-joining).err)
			})
		})
	}
}

// A topic that was joined waits for its server, whatever that says meanwhile.
func TestARefusedTokenEndsNoTopicThatWasJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		s.refuse.Store(http.StatusForbidden)
		p.drop()
		time.Sleep(time.Minute)
		require.NoError(t, topic.Err())
		s.refuse.Store(0)
		s.accept().join("room:1")
		_, err := topic.Ready(t.Context())
		require.NoError(t, err)
	})
}

// Guards against abandoned dials that leave their connection open: the
// server accepts, and then says nothing.
func TestAbandonedDialsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := wstestListener(t)
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(io.Discard, conn) }()
			}
		}()
		cfg := Config{URL: "ws://localhost/socket", NetDial: listener.DialContext, HandshakeTimeout: 3 * time.Second}
		socket, err := Open(cfg)
		require.NoError(t, err)
		t.Cleanup(func() { _ = socket.Close() })
		time.Sleep(3*time.Second + time.Millisecond)
		require.Equal(t, 2, listener.Dialed())
		require.Equal(t, 1, listener.Open())
		require.ErrorContains(t, socket.Err(), "within 3s")

		began := time.Now()
		require.NoError(t, socket.Close()) // in the midst of a dial
		require.Zero(t, time.Since(began))
		require.Zero(t, listener.Open())
	})
}

func TestDialErrorKeepsItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		socket, err := Open(Config{URL: "ws://localhost/socket", NetDial: func(context.Context, string, string) (net.Conn, error) {
			return nil, refused
		}})
		require.NoError(t, err)
		synctest.Wait()
		require.ErrorIs(t, socket.Err(), refused)
		require.EqualError(t, socket.Err(), "cannot connect to ws://localhost/socket/websocket: dial: connection refused")
		require.NoError(t, socket.Close())
	})
}

// Guards against a server, or what is in its place, that fills the worker's memory before it is
// one.
func TestAHandshakeIsBounded(t *testing.T) {
	tests := []struct {
		name, head, line string
		proxy            func(*http.Request) (*url.URL, error)
		url              string
		says             string
	}{
		{name: "headers", head: "HTTP/1.1 101 Switching Protocols\r\n", line: "X: " + strings.Repeat("y", 1000) + "\r\n"},
		{name: "a header", head: "HTTP/1.1 101 Switching Protocols\r\nX: ", line: strings.Repeat("y", 1000)},
		{name: "a status", head: "HTTP/1.1 403 ", line: strings.Repeat("y", 1000)},
		{name: "informational answers", line: "HTTP/1.1 103 Early Hints\r\n\r\n", says: "HTTP 103"},
		{name: "a proxy", head: "HTTP/1.1 200 OK\r\n", line: "X: " + strings.Repeat("y", 1000) + "\r\n", proxy: through},
		{name: "a proxy to TLS", head: "HTTP/1.1 200 OK\r\n", line: "X: " + strings.Repeat("y", 1000) + "\r\n", proxy: through, url: "wss://lightning.test/worker"},
		{name: "a proxy that says no", head: "HTTP/1.1 403 ", line: strings.Repeat("y", 1000), proxy: through},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				cfg := Config{URL: "ws://localhost/socket", Proxy: tt.proxy, Logger: slog.New(slog.NewTextHandler(&log, nil))}
				if tt.url != "" {
					cfg.URL = tt.url
				}
				taken := endless(t, &cfg, tt.head, tt.line, 0)
				socket, err := Open(cfg)
				require.NoError(t, err)
				for range 5 {
					require.LessOrEqual(t, <-taken, maxHandshake)
				}
				synctest.Wait()
				status, _ := socket.Status()
				require.GreaterOrEqual(t, status.Attempts, 5)
				require.ErrorContains(t, status.Err, cmp.Or(tt.says, "more than 256 KiB"))
				require.Less(t, log.Len(), 1000)
				require.NoError(t, socket.Close())
			})
		})
	}
}

// A byte a second is a sign of life, and no end.
func TestASlowHandshakeIsGivenUp(t *testing.T) {
	for name, proxy := range map[string]func(*http.Request) (*url.URL, error){
		"server": nil,
		"proxy":  through,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := Config{URL: "ws://localhost/socket", Proxy: proxy}
				taken := endless(t, &cfg, "HTTP/1.1 101 Switching Protocols\r\nX: ", "y", time.Second)
				began := time.Now()
				socket, err := Open(cfg)
				require.NoError(t, err)
				require.Less(t, <-taken, 100)
				require.Less(t, time.Since(began), 17*time.Second)
				synctest.Wait()
				require.ErrorContains(t, socket.Err(), "no connection within 15s")
				require.NoError(t, socket.Close())
				time.Sleep(2 * time.Second) // the server notices
			})
		})
	}
}

// Guards against a line of the log that is as long as somebody else likes.
func TestWhatADialSaysIsShort(t *testing.T) {
	long := strings.Repeat("y", maxHandshake/2)
	for name, head := range map[string]string{
		"a status":    "HTTP/1.1 403 " + long + "\r\n\r\n",
		"no HTTP":     long + "\r\n\r\n",
		"a version":   "HTTP/" + long + " 200 OK\r\n\r\n",
		"not a line":  "HTTP/1.1 101 Switching Protocols\r\n" + long + "\r\n\r\n",
		"a body":      "HTTP/1.1 500 no\r\nContent-Length: 100000\r\n\r\n" + long,
		"no encoding": "HTTP/1.1 500 no\r\nTransfer-Encoding: " + long + "\r\n\r\n",
	} {
		for _, proxy := range []func(*http.Request) (*url.URL, error){nil, through} {
			t.Run(fmt.Sprint(name, ", proxy: ", proxy != nil), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := Config{URL: "ws://localhost/socket", Proxy: proxy}
					taken := endless(t, &cfg, head, "\n", 0)
					socket, err := Open(cfg)
					require.NoError(t, err)
					<-taken
					synctest.Wait()
					require.Error(t, socket.Err())
					require.Less(t, len(socket.Err().Error()), 1200)
					require.NoError(t, socket.Close())
				})
			})
		}
	}
}

// What is bounded is the handshake, and not what comes after it.
func TestAConnectionMayReadMoreThanItsHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		for range 3 {
			pushing := asyncPush(topic, "fetch", nil)
			p.ok(p.read(), `"`+strings.Repeat("x", maxHandshake)+`"`)
			require.NoError(t, (<-pushing).err)
		}
	})
}

// echo is a handler that joins everything and answers each push with its payload.
func echo(t *testing.T, upgrader websocket.Upgrader) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		p := &peer{t: t, ws: ws}
		p.serve(func(f frame.Frame) string { return okReply(f, string(f.Payload)) })
		_ = ws.Close()
	})
}

// roundTrip joins and pushes over real sockets.
func roundTrip(t *testing.T, cfg Config, payload string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	socket, err := Open(cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, socket.Close()) }()
	topic, err := socket.Join(ctx, "room:1", nil)
	require.NoError(t, err)
	reply, err := topic.Push(ctx, "echo", payload)
	require.NoError(t, err)
	var got string
	require.NoError(t, reply.Decode(&got))
	require.Equal(t, payload, got)
}
