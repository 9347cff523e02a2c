package channel

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
)

func TestCloseSaysGoodbye(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, topic, p, _ := joined(t, s, s.config())
		pushing := asyncPush(topic, "claim", nil)
		p.expect("room:1", "claim")
		waiting := async(func() (int, error) { <-topic.Done(); return 0, topic.Err() })
		closing := async(func() (int, error) { return 0, socket.Close() })
		err := p.closed()
		require.True(t, websocket.IsCloseError(err, websocket.CloseNormalClosure), "got %v", err)
		require.NoError(t, (<-closing).err)
		require.Zero(t, s.listener.Open())

		got := <-pushing
		require.ErrorIs(t, got.err, ErrOutcomeUnknown)
		require.ErrorIs(t, got.err, ErrClosed)
		require.ErrorIs(t, (<-waiting).err, ErrClosed)
		status, _ := socket.Status()
		require.Equal(t, Closed, status.State)
		require.ErrorIs(t, status.Err, ErrClosed)
	})
}

func TestCallsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, topic, p, _ := joined(t, s, s.config())
		go func() { _, _, _ = p.ws.ReadMessage() }()
		require.NoError(t, socket.Close())
		_, err := socket.Join(t.Context(), "room:2", nil)
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, socket.Connected(t.Context()), ErrClosed)
		_, err = topic.Push(t.Context(), "claim", nil)
		require.ErrorIs(t, err, ErrNotSent)
		require.ErrorIs(t, err, ErrClosed)
		_, err = topic.Ready(t.Context())
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, topic.Leave(t.Context()))
		require.Equal(t, 1, s.listener.Dialed()) // no more dials
	})
}

// Guards against stopping twice, at once, before start, and from within.
func TestCloseAtAnyTime(t *testing.T) {
	tests := []struct {
		name  string
		begin func(t *testing.T, s *server) *Socket
		took  time.Duration // at most
	}{
		{name: "before the first connection", begin: func(t *testing.T, s *server) *Socket {
			return s.open(Config{URL: "ws://localhost/socket", NetDial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}})
		}},
		// It may have a connection by then, whose other side does not read.
		{name: "at once", took: time.Second, begin: func(t *testing.T, s *server) *Socket { return s.open(s.config()) }},
		{name: "while it waits to dial again", begin: func(t *testing.T, s *server) *Socket {
			s.refuse.Store(503)
			socket := s.open(s.config())
			time.Sleep(time.Minute)
			return socket
		}},
		{name: "while a join is under way", begin: func(t *testing.T, s *server) *Socket {
			socket := s.open(s.config())
			p := s.accept()
			joining := asyncJoin(socket, "room:1", nil)
			p.expect("room:1", "phx_join")
			go p.serve(func(frame.Frame) string { return `[null,null,"room:1","noise",{}]` })
			t.Cleanup(func() { require.ErrorIs(t, (<-joining).err, ErrClosed) })
			return socket
		}},
		{name: "while the server does not read", took: time.Second, begin: func(t *testing.T, s *server) *Socket {
			socket, topic, _, _ := joined(t, s, s.config())
			pushing := asyncPush(topic, "stuck", nil)
			synctest.Wait()
			t.Cleanup(func() { require.ErrorIs(t, (<-pushing).err, ErrNotSent) })
			return socket
		}},
		{name: "while the server does not answer the close", took: time.Second, begin: func(t *testing.T, s *server) *Socket {
			socket, _, p, _ := joined(t, s, s.config())
			p.ws.SetCloseHandler(func(int, string) error { return nil })
			go func() { _, _, _ = p.ws.ReadMessage() }()
			return socket
		}},
		{name: "while a topic is being left", begin: func(t *testing.T, s *server) *Socket {
			socket, topic, p, _ := joined(t, s, s.config())
			go func() { _ = topic.Leave(context.Background()) }()
			p.expect("room:1", "phx_leave")
			go func() { _, _, _ = p.ws.ReadMessage() }()
			return socket
		}},
		{name: "while a heartbeat is unanswered", begin: func(t *testing.T, s *server) *Socket {
			socket, _, p, _ := joined(t, s, s.config())
			require.Equal(t, "heartbeat", p.next().Event)
			go func() { _, _, _ = p.ws.ReadMessage() }()
			return socket
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				socket := tt.begin(t, s)
				began := time.Now()
				var closing sync.WaitGroup
				for range 3 {
					closing.Go(func() { _ = socket.Close() })
				}
				closing.Wait()
				require.LessOrEqual(t, time.Since(began), tt.took)
				require.Zero(t, s.listener.Open())
				require.NoError(t, socket.Close())
			})
		})
	}
}

func TestCloseFromTheReaderOfMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, topic, p, _ := joined(t, s, s.config())
		reader := async(func() (int, error) {
			for n := 0; ; n++ {
				select {
				case m := <-topic.Messages():
					if m.Event == "stop" {
						_ = socket.Close()
					}
				case <-topic.Done():
					return n, topic.Err()
				}
			}
		})
		p.send(`[null,null,"room:1","go on",{}]`)
		p.send(`[null,null,"room:1","stop",{}]`)
		_ = p.closed()
		got := <-reader
		require.Equal(t, 2, got.value)
		require.ErrorIs(t, got.err, ErrClosed)
	})
}

func TestOpenRefusesABadURL(t *testing.T) {
	tests := []struct {
		name, url, says string
	}{
		{name: "empty", url: "", says: "scheme"},
		{name: "no scheme", url: "localhost/socket", says: "scheme"},
		{name: "another scheme", url: "ftp://localhost/socket", says: `"ftp"`},
		{name: "no host", url: "ws:///socket", says: "no host"},
		{name: "user", url: "ws://u:s3cret@localhost/socket", says: "Config.Header"},
		{name: "not a URL", url: "ws://localhost/%zz?token=s3cret", says: "cannot be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Open(Config{URL: tt.url})
			require.ErrorContains(t, err, tt.says)
			require.NotContains(t, err.Error(), "s3cret")
		})
	}
}
