package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
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
