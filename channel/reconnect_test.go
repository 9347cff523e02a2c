package channel

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

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
