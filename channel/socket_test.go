package channel

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
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

// Guards against a worker that takes a 1000 (a kick, an idle time-out) for
// final and never comes back: only the client's own close is.
func TestReconnectsAfterEveryEnd(t *testing.T) {
	tests := []struct {
		name string
		end  func(p *peer)
		says string // in the error of a push in flight
		lost Cause  // CauseClosed if empty
	}{
		{name: "1000", end: func(p *peer) { p.close(websocket.CloseNormalClosure) }, says: "1000"},
		{name: "1001", end: func(p *peer) { p.close(websocket.CloseGoingAway) }, says: "1001"},
		{name: "1002", end: func(p *peer) { p.close(websocket.CloseProtocolError) }, says: "1002"},
		{name: "1005, no code", end: func(p *peer) { p.close(websocket.CloseNoStatusReceived) }, says: "1005"},
		{name: "1006, no close frame", end: (*peer).drop, says: "EOF", lost: CauseNetwork},
		{name: "1011", end: func(p *peer) { p.close(websocket.CloseInternalServerErr) }, says: "1011"},
		{name: "1012", end: func(p *peer) { p.close(websocket.CloseServiceRestart) }, says: "1012"},
		{name: "4000, an application's", end: func(p *peer) { p.close(4000) }, says: "4000"},
		{name: "no JSON", end: func(p *peer) { p.send("not json") }, says: "cannot be read", lost: CauseProtocol},
		{name: "four elements", end: func(p *peer) { p.send(`[null,null,"room:1","event"]`) }, says: "cannot be read", lost: CauseProtocol},
		{name: "unknown kind of binary", end: func(p *peer) {
			require.NoError(p.t, p.ws.WriteMessage(websocket.BinaryMessage, []byte{9, 1, 2}))
		}, says: "cannot be read", lost: CauseProtocol},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				socket, topic, p, _ := joined(t, s, s.config())
				pushing := asyncPush(topic, "claim", nil)
				p.expect("room:1", "claim")
				tt.end(p)
				got := <-pushing
				require.ErrorIs(t, got.err, ErrOutcomeUnknown)
				require.ErrorContains(t, got.err, tt.says)

				s.accept().join("room:1")
				join, err := topic.Ready(t.Context())
				require.NoError(t, err)
				require.Equal(t, 2, join.Epoch)
				require.NoError(t, socket.Err())
				if tt.lost == "" {
					tt.lost = CauseClosed
				}
				require.Equal(t, map[Cause]uint64{tt.lost: 1}, socket.Stats().Lost)
			})
		})
	}
}

func TestFirstRetryIsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, _, p, _ := joined(t, s, s.config())
		for range 5 { // each time, not the first time only
			time.Sleep(steady)
			lost := time.Now()
			p.drop()
			p = s.accept()
			p.join("room:1")
			require.Zero(t, time.Since(lost))
		}
	})
}

// Guards against all clients of a server coming back in the same moment after it
// has told them that it restarts.
func TestARestartSpreadsTheFirstRetry(t *testing.T) {
	var waits []time.Duration
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t)
			s.open(s.config())
			p := s.accept()
			time.Sleep(steady)
			lost := time.Now()
			p.close(websocket.CloseServiceRestart)
			s.accept()
			waits = append(waits, time.Since(lost))
		})
	}
	slices.Sort(waits)
	require.Less(t, waits[19], time.Second)
	require.Greater(t, waits[19]-waits[0], 100*time.Millisecond, "%v", waits)
}

// Guards against a hot loop: a server, or a load balancer without one, that
// accepts each connection and closes it at once.
func TestConnectionsThatDoNotLastAreSpacedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.MinBackoff, cfg.MaxBackoff = time.Second, 16*time.Second
		socket := s.open(cfg)
		joining := asyncJoin(socket, "room:1", nil)
		began, connections := time.Now(), 0
		for time.Since(began) < time.Hour {
			p := s.accept()
			p.join("room:1") // even a good start does not count
			p.drop()
			connections++
		}
		// The mean wait is half of MaxBackoff: 450 an hour.
		require.Less(t, connections, 700)
		require.Greater(t, connections, 300)
		require.NoError(t, (<-joining).err)
	})
}

func TestBackoffGrowsWithFullJitterAndResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{MinBackoff: time.Second, MaxBackoff: 10 * time.Second}.withDefaults()
		measure := func(r *retries) time.Duration {
			began := time.Now()
			r.wait(t.Context(), nil)
			return time.Since(began)
		}
		limits := []time.Duration{0, 1, 2, 4, 8, 10, 10, 10}
		longest := make([]time.Duration, len(limits))
		for range 300 {
			r := newRetries(&cfg)
			for i, limit := range limits {
				waited := measure(r)
				require.LessOrEqual(t, waited, limit*time.Second)
				longest[i] = max(longest[i], waited)
			}
			r.reset()
			require.Zero(t, measure(r))
			require.LessOrEqual(t, measure(r), time.Second)
		}
		for i, limit := range limits { // the whole range is used
			require.GreaterOrEqual(t, longest[i], limit*time.Second*8/10)
		}
	})
}

func TestNothingIsSentBeforeTheJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		p.drop()
		synctest.Wait()
		_, err := topic.Push(t.Context(), "offline", nil)
		require.ErrorIs(t, err, ErrNotSent)

		p = s.accept()
		f := p.expect("room:1", "phx_join")
		_, err = topic.Push(t.Context(), "joining", nil)
		require.ErrorIs(t, err, ErrNotSent)
		p.ok(f, `{}`)
		_, err = topic.Ready(t.Context())
		require.NoError(t, err)
		pushing := asyncPush(topic, "joined", nil)
		p.ok(p.expect("room:1", "joined"), `{}`) // and nothing was kept from before
		require.NoError(t, (<-pushing).err)
	})
}

// A reply to a push of the previous connection has the same ref as one of this.
func TestStaleReplyOfAnEarlierConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		_, topic, p, _ := joined(t, s, s.config())
		pushing := asyncPush(topic, "first", nil)
		old := p.read()
		p.drop()
		require.ErrorIs(t, (<-pushing).err, ErrOutcomeUnknown)

		p = s.accept()
		p.join("room:1")
		_, err := topic.Ready(t.Context())
		require.NoError(t, err)
		p.ok(old, `"stale"`)
		synctest.Wait()
		pushing = asyncPush(topic, "second", nil)
		p.ok(p.expect("room:1", "second"), `"fresh"`)
		got := <-pushing
		require.NoError(t, got.err)
		require.Equal(t, `"fresh"`, string(got.value.Response))
	})
}

// Log lines about a server that is away: one, then one a minute, one at the
// return; and never a token.
func TestLogIsTerse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newServer(t)
		cfg := s.config()
		cfg.Params = params("token", "s3cret")
		cfg.MaxBackoff = 2 * time.Second
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		lines := func() []string {
			defer log.Reset()
			return strings.Split(strings.TrimSpace(log.String()), "\n")
		}
		socket, _, p, _ := joined(t, s, cfg)
		require.Len(t, lines(), 1) // connected
		time.Sleep(steady)

		s.refuse.Store(401)
		p.drop()
		time.Sleep(5*time.Minute + 30*time.Second)
		s.refuse.Store(0)
		p = s.accept()
		p.join("room:1")
		synctest.Wait()
		got := lines()
		require.GreaterOrEqual(t, len(got), 6)
		require.LessOrEqual(t, len(got), 7)
		require.Contains(t, got[0], "trying again")
		require.Contains(t, got[0], "EOF")
		require.Contains(t, got[1], "check the token")
		require.Contains(t, got[len(got)-1], "connected again")

		time.Sleep(steady) // it holds: the next loss is news again
		p.drop()
		p = s.accept()
		p.join("room:1")
		synctest.Wait()
		again := lines()
		require.Len(t, again, 2)
		require.Contains(t, again[0], "trying again")
		require.Contains(t, again[1], "connected again")

		require.NoError(t, socket.Close()) // an expected stop is no line
		require.Zero(t, log.Len())
		require.NotContains(t, strings.Join(got, ""), "s3cret")
	})
}

// Guards against a log whose last word is that there is no connection, while there is one.
func TestTheLastLineOfATroubleIsHowItEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := report{log: slog.New(slog.NewTextHandler(&log, nil)), before: true}
		r.down(io.EOF)
		time.Sleep(time.Second)
		r.up()
		time.Sleep(time.Second)
		r.down(io.EOF) // one that was short is no news
		time.Sleep(quiet - 2*time.Second)
		r.down(io.EOF)
		require.Equal(t, 2, strings.Count(log.String(), "not connected"))
		time.Sleep(time.Millisecond)
		r.up()
		require.Equal(t, 2, strings.Count(log.String(), "connected again"), log.String())
	})
}

// Guards against a topic that ended between the two halves of Close, without an error: its
// Join waited until the context ended, once in some thousand times.
func TestAJoinEndsWithItsSocket(t *testing.T) {
	rounds := 5000
	if testing.Short() {
		rounds = 500
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for round := range rounds {
		socket, err := Open(Config{URL: "ws://localhost/socket", NetDial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		require.NoError(t, err)
		var joining []<-chan outcome[*Topic]
		for i := range 4 {
			joining = append(joining, async(func() (*Topic, error) { return socket.Join(ctx, fmt.Sprint("room:", i), nil) }))
		}
		for range round % 7 {
			runtime.Gosched()
		}
		require.NoError(t, socket.Close())
		for _, joined := range joining {
			err := (<-joined).err
			require.ErrorIs(t, err, ErrClosed)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
		}
	}
}
