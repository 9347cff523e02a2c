package channel

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
)

func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, _, p, _ := joined(t, s, s.config())
		began := time.Now()
		for beat := 1; beat <= 20; beat++ {
			f := p.next()
			require.Equal(t, "phoenix heartbeat", f.Topic+" "+f.Event)
			require.Equal(t, time.Duration(beat)*30*time.Second, time.Since(began))
			require.Empty(t, f.JoinRef)
			require.Equal(t, `{}`, string(f.Payload))
			time.Sleep(time.Duration(beat) * time.Millisecond)
			p.beat(f)
		}
		synctest.Wait()
		require.Equal(t, 20*time.Millisecond, socket.Stats().RoundTrip)
		status, _ := socket.Status()
		require.Equal(t, 1, status.Connections)
	})
}

// A connection that is dead without anyone saying so.
func TestUnansweredHeartbeatEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, topic, p, _ := joined(t, s, s.config())
		began := time.Now()
		pushing := asyncPush(topic, "claim", nil)
		p.expect("room:1", "claim")
		require.Equal(t, "heartbeat", p.next().Event)
		got := <-pushing
		require.Equal(t, time.Minute, time.Since(began))
		require.ErrorIs(t, got.err, ErrOutcomeUnknown)
		require.ErrorContains(t, got.err, "heartbeat")
		_ = p.closed()
		s.accept().join("room:1")
		require.Equal(t, time.Minute, time.Since(began))
		require.Equal(t, map[Cause]uint64{CauseHeartbeat: 1}, socket.Stats().Lost)
	})
}

// Guards against taking a connection for dead that is busy: many runs report at
// once, each with megabytes, and the heartbeat has to wait for its turn.
func TestAHeartbeatThatWaitsForItsTurnIsNotUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.WriteTimeout = 20 * time.Second
		socket, topic, p, _ := joined(t, s, cfg)
		var pushings []<-chan outcome[Reply]
		for range 6 {
			pushings = append(pushings, asyncPush(topic, "large", nil))
			synctest.Wait()
		}
		for range pushings {
			time.Sleep(15 * time.Second) // what each takes to be written
			p.ok(p.expect("room:1", "large"), `{}`)
		}
		require.Equal(t, "heartbeat", p.next().Event)
		for _, pushing := range pushings {
			require.NoError(t, (<-pushing).err)
		}
		status, _ := socket.Status()
		require.Equal(t, 1, status.Connections)
	})
}

// trickle writes a text message with a wait of a second for each ten kB, on which the client's
// heartbeats are not answered: their answers would be behind it.
func trickle(p *peer, message string) {
	w, err := p.ws.NextWriter(websocket.TextMessage)
	require.NoError(p.t, err)
	for len(message) > 0 {
		n := min(len(message), 10_000)
		_, err := w.Write([]byte(message[:n]))
		require.NoError(p.t, err)
		message = message[n:]
		time.Sleep(time.Second)
	}
	require.NoError(p.t, w.Close())
}

// Guards against an answer over a slow link that ends the connection of all runs, and is asked for
// again because nobody has said that it is too large.
func TestAnAnswerThatComesSlowly(t *testing.T) {
	for _, tt := range []struct {
		name     string
		limit    int64
		tooLarge time.Duration // when that is known
	}{{name: "too large", limit: 200_000, tooLarge: 20 * time.Second}, {name: "within the limit", limit: 10_000_000}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				cfg := s.config()
				cfg.ReadLimit = tt.limit
				socket, topic, p, _ := joined(t, s, cfg)
				join, _ := topic.Current()
				began := time.Now()
				fetching := async(func() (Reply, error) { return join.PushWithin(t.Context(), time.Minute, "fetch", nil) })
				asked := p.read()
				other := async(func() (Reply, error) { return join.PushWithin(t.Context(), time.Minute, "other", nil) })
				waiting := p.read()
				joining := asyncJoin(socket, "room:2", nil)
				toJoin := p.expect("room:2", frame.Join)
				beats := make(chan frame.Frame, 100)
				go func() {
					defer close(beats)
					for {
						_, data, err := p.ws.ReadMessage()
						if err != nil {
							return
						}
						f, _ := frame.DecodePush(data, false)
						beats <- f
					}
				}()
				payload := strings.Repeat("x", 2_500_000)
				sent := async(func() (bool, error) {
					trickle(p, okReply(asked, `"`+payload+`"`))
					return true, nil
				})
				got := <-fetching
				if tt.tooLarge > 0 {
					require.ErrorAs(t, got.err, new(*AnswerTooLargeError))
					require.InDelta(t, tt.tooLarge.Seconds(), time.Since(began).Seconds(), 2, "at once, and not at its end")
				} else {
					require.NoError(t, got.err)
					require.Len(t, got.value.Response, len(payload)+2)
				}
				<-sent
				require.Greater(t, time.Since(began), 4*time.Minute)
				require.GreaterOrEqual(t, len(beats), 4, "the server hears of the client meanwhile")
				for len(beats) > 0 {
					p.beat(<-beats)
				}
				p.ok(waiting, `{}`)
				require.NoError(t, (<-other).err, "it was behind")
				p.ok(toJoin, `{}`)
				second := <-joining
				require.NoError(t, second.err)
				after, _ := second.value.Current()
				require.Equal(t, toJoin.Ref, after.ref, "no join was asked for twice")
				status, _ := socket.Status()
				require.Equal(t, 1, status.Connections)
				again, _ := topic.Current()
				require.Equal(t, 1, again.Epoch, "nothing was joined anew")
			})
		})
	}
}

// What has begun to come and does not go on is no sign of life.
func TestAMessageThatStallsEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket, topic, p, _ := joined(t, s, s.config())
		join, _ := topic.Current()
		began := time.Now()
		fetching := async(func() (Reply, error) { return join.PushWithin(t.Context(), 10*time.Second, "fetch", nil) })
		asked := p.read()
		w, err := p.ws.NextWriter(websocket.TextMessage)
		require.NoError(t, err)
		_, err = w.Write([]byte(okReply(asked, `"`+strings.Repeat("x", 50_000))))
		require.NoError(t, err)
		require.Equal(t, "heartbeat", p.next().Event)
		require.ErrorContains(t, (<-fetching).err, "heartbeat")
		require.Equal(t, time.Minute, time.Since(began))
		s.accept().join("room:1")
		require.EqualValues(t, 1, socket.Stats().Lost[CauseHeartbeat])
	})
}
