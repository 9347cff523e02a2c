package phoenix

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/fault"
)

const slowReply = `["1","2","worker:queue","phx_reply",{"response":{"n":1},"status":"ok"}]`

// deferring has an endpoint whose channel answers the event "slow" when told to.
func deferring(t *testing.T, faults Faults, test func(s *server, c *client, later *Later)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{Faults: faults})
		c := s.dial(websocket.Dialer{})
		c.join()
		c.send(`["1","2","worker:queue","slow",{}]`)
		test(s, c, s.app.deferred())
	})
}

func TestAnAnswerCanComeLater(t *testing.T) {
	deferring(t, nil, func(_ *server, c *client, later *Later) {
		c.send(`["1","3","worker:queue","quick",{}]`)
		c.expect(`["1","3","worker:queue","phx_reply",{"response":null,"status":"ok"}]`)
		require.True(t, later.Answer(OK([]byte(`{"n":1}`))))
		c.expect(slowReply)
	})
}

func TestALateAnswerOfATopicThatEndedIsNotSent(t *testing.T) {
	t.Run("left", func(t *testing.T) {
		deferring(t, nil, func(_ *server, c *client, later *Later) {
			c.send(`["1","3","worker:queue","phx_leave",{}]`)
			c.expect(`["1","3","worker:queue","phx_reply",{"response":{},"status":"ok"}]`)
			c.expect(`["1","1","worker:queue","phx_close",{}]`)
			require.False(t, later.Answer(OK(nil)))
			c.send(`[null,"4","phoenix","heartbeat",{}]`)
			c.expect(`[null,"4","phoenix","phx_reply",{"response":{},"status":"ok"}]`)
		})
	})
	t.Run("joined again", func(t *testing.T) {
		deferring(t, nil, func(_ *server, c *client, later *Later) {
			c.send(`["3","3","worker:queue","phx_join",{}]`)
			c.expect(`["3","3","worker:queue","phx_reply",{"response":{},"status":"ok"}]`)
			c.expect(`["1","1","worker:queue","phx_close",{}]`)
			require.False(t, later.Answer(OK(nil)))
		})
	})
	t.Run("connection lost", func(t *testing.T) {
		deferring(t, nil, func(_ *server, c *client, later *Later) {
			require.NoError(t, c.Close())
			synctest.Wait()
			require.False(t, later.Answer(OK(nil)))
		})
	})
}

// What a fault does to a reply it does to one that comes later, when it comes.
func TestFaultsOfLateAnswers(t *testing.T) {
	strike := func(action fault.Action, delay time.Duration) Faults {
		set := fault.NewSet(1)
		_, _, err := set.Add(fault.Rule{Topic: "worker:queue", Skip: 1, Action: action, When: fault.After, Delay: delay})
		require.NoError(t, err)
		return asking{set}
	}
	t.Run("drop", func(t *testing.T) {
		deferring(t, strike(fault.Drop, 0), func(s *server, c *client, later *Later) {
			synctest.Wait()
			require.Equal(t, 1, s.endpoint.Sockets(), "as long as it waits")
			require.True(t, later.Answer(OK(nil)))
			require.Equal(t, websocket.CloseAbnormalClosure, c.closed())
		})
	})
	t.Run("delay", func(t *testing.T) {
		deferring(t, strike(fault.Delay, 5*time.Second), func(_ *server, c *client, later *Later) {
			time.Sleep(time.Minute / 2)
			start := time.Now()
			require.True(t, later.Answer(OK([]byte(`{"n":1}`))))
			c.expect(slowReply)
			require.Equal(t, 5*time.Second, time.Since(start))
		})
	})
	t.Run("withhold", func(t *testing.T) {
		deferring(t, strike(fault.Withhold, 0), func(_ *server, c *client, later *Later) {
			require.True(t, later.Answer(OK(nil)))
			c.send(`[null,"4","phoenix","heartbeat",{}]`)
			c.expect(`[null,"4","phoenix","phx_reply",{"response":{},"status":"ok"}]`)
		})
	})
	t.Run("crash", func(t *testing.T) {
		deferring(t, strike(fault.Crash, 0), func(_ *server, c *client, later *Later) {
			c.expect(`["1","1","worker:queue","phx_error",{}]`)
			require.False(t, later.Answer(OK(nil)))
		})
	})
}

func TestTheServerCanCloseATopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{MaxTopics: 1})
		c := s.dial(websocket.Dialer{})
		c.join()
		s.app.queue.Close()
		s.app.queue.Close() // a second time is nothing
		c.expect(`["1","1","worker:queue","phx_close",{}]`)
		s.app.wake()
		c.send(`["1","2","worker:queue","quick",{}]`)
		c.expect(`[null,"2","worker:queue","phx_reply",{"response":{"reason":"unmatched topic"},"status":"error"}]`)
		c.send(`["3","3","worker:queue","phx_join",{}]`)
		c.expect(`["3","3","worker:queue","phx_reply",{"response":{},"status":"ok"}]`)
		require.Empty(t, s.app.leftTopics(), "who closes it knows")
		s.app.queue.Close()
		c.expect(`["3","3","worker:queue","phx_close",{}]`)
		c.send(`["4","4","run:r","phx_join",{"token":"t"}]`)
		c.expect(`["4","4","run:r","phx_reply",{"response":{},"status":"ok"}]`) // it does not count
	})
}

// What is sent, and an end that is made, while a join is being answered comes
// behind the answer.
func TestSendsDuringAJoinFollowItsReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		c := s.dial(websocket.Dialer{})
		s.app.set("busy", "")
		c.send(`["1","1","worker:queue","phx_join",{}]`)
		c.expect(`["1","1","worker:queue","phx_reply",{"response":{},"status":"ok"}]`)
		c.expect(`[null,null,"worker:queue","early",{}]`)
		c.expect(`["1","1","worker:queue","phx_close",{}]`)
	})
}

type asking struct{ set *fault.Set }

func (a asking) Strike(m fault.Message) *fault.Rule {
	rule, _ := a.set.Ask(&m)
	return rule
}
