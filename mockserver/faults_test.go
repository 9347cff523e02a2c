package mockserver_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// faulty is a server in a bubble, with a run claimed and joined by a bare
// client, that the faults given are then added to.
func faulty(t *testing.T, rules []fault.Rule, test func(m *inMemory, c *rawClient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := newInMemory(t, mockserver.Config{OpaqueTokens: true, WakeDebounce: -1})
		c, _ := m.claimed(mockserver.Run{Plan: plan("r1")})
		for _, r := range rules {
			_, err := m.AddFault(r)
			require.NoError(t, err)
		}
		test(m, c)
	})
}

// closed reads until the connection ends and returns the close code.
func (c *rawClient) closed() int {
	c.t.Helper()
	_, data, err := c.conn.ReadMessage()
	require.Error(c.t, err, "instead of a close came %s", data)
	closed, ok := errors.AsType[*websocket.CloseError](err)
	if !ok {
		return 1006
	}
	return closed.Code
}

// heartbeat shows that the connection lives and that nothing else was on its way.
func (c *rawClient) heartbeat() {
	c.t.Helper()
	c.ref++
	require.NoError(c.t, c.conn.WriteMessage(websocket.TextMessage, []byte(`[null,"hb","phoenix","heartbeat",{}]`)))
	require.Equal(c.t, frame.Ref(`"hb"`), c.read().Ref)
}

// happened is what the server says of the run: its state, the events that were
// applied with their status, and what struck.
func happened(m *inMemory) (state string, events, strikes []string) {
	m.t.Helper()
	record, ok := m.Inspect("r1")
	require.True(m.t, ok)
	for _, e := range record.Events {
		events = append(events, e.Event+" "+e.Status)
	}
	for _, s := range record.Faults {
		require.Equal(m.t, []string{"r1", "run:r1", "mighty-worker"}, []string{s.Run, s.Topic, s.Worker})
		require.Positive(m.t, s.Socket)
		strikes = append(strikes, string(s.When)+" "+s.Event+" "+string(s.Action))
	}
	require.Len(m.t, m.Faults(), len(record.Faults), "the server knows of them too")
	return string(record.State), events, strikes
}

func TestFaultsThatEndTheConnection(t *testing.T) {
	tests := []struct {
		name string
		rule fault.Rule
		code int
	}{
		{name: "drop", rule: fault.Rule{Action: fault.Drop}, code: 1006},
		{name: "kick", rule: fault.Rule{Action: fault.Close}, code: 1000},
		{name: "close with 1011", rule: fault.Rule{Action: fault.Close, Code: 1011}, code: 1011},
		{name: "close with a code of one's own", rule: fault.Rule{Action: fault.Close, Code: 4321}, code: 4321},
		{name: "restart", rule: fault.Rule{Action: fault.Restart}, code: 1012},
		{name: "kill", rule: fault.Rule{Action: fault.Restart, Code: 1006}, code: 1006},
	}
	for _, tt := range tests {
		for _, when := range []fault.When{fault.Before, fault.After} {
			t.Run(tt.name+" "+string(when), func(t *testing.T) {
				tt.rule.Event, tt.rule.When = "run:start", when
				faulty(t, []fault.Rule{tt.rule}, func(m *inMemory, c *rawClient) {
					c.ok("run:r1", "fetch:plan", `{}`)
					start := time.Now()
					c.send("run:r1", "run:start", `{}`)
					require.Equal(t, tt.code, c.closed())
					require.Zero(t, time.Since(start))
					synctest.Wait()
					require.Zero(t, m.Stats().Workers)
					state, events, strikes := happened(m)
					require.Equal(t, []string{string(when) + " run:start " + string(tt.rule.Action)}, strikes)
					if when == fault.Before {
						require.Equal(t, "claimed", state)
						require.Equal(t, []string{"fetch:plan ok"}, events)
					} else {
						require.Equal(t, "started", state)
						require.Equal(t, []string{"fetch:plan ok", "run:start ok"}, events)
					}
					m.worker().ok("worker:queue", "claim", `{"demand":1,"worker_name":null}`)
				})
			})
		}
	}
}

func TestFaultCrash(t *testing.T) {
	for _, when := range []fault.When{fault.Before, fault.After} {
		t.Run(string(when), func(t *testing.T) {
			faulty(t, []fault.Rule{{Event: "run:start", Action: fault.Crash, When: when}}, func(m *inMemory, c *rawClient) {
				f := c.exchange("run:r1", "run:start", `{}`)
				require.Equal(t, frame.Frame{JoinRef: `"3"`, Ref: `"3"`, Topic: "run:r1", Event: "phx_error", Payload: []byte(`{}`)}, f)
				f = c.exchange("run:r1", "run:start", `{}`)
				require.Equal(t, `error {"reason":"unmatched topic"}`, f.Status+" "+string(f.Payload))
				c.heartbeat()
				state, events, strikes := happened(m)
				require.Equal(t, []string{string(when) + " run:start crash"}, strikes)
				require.Equal(t, when == fault.After, state == "started")
				require.Equal(t, when == fault.After, len(events) == 1)
			})
		})
	}
}

func TestFaultyJoins(t *testing.T) {
	refuse := func(reason string) fault.Rule {
		return fault.Rule{Event: fault.Join, Action: fault.Refuse, Response: []byte(`{"reason":"` + reason + `"}`)}
	}
	tests := []struct {
		name string
		rule fault.Rule
		want string
	}{
		{name: "unauthorized", rule: refuse("unauthorized"), want: "unauthorized"},
		{name: "not found", rule: refuse("not_found"), want: "not_found"},
		{name: "too many", rule: refuse("too many channels joined"), want: "too many channels joined"},
		{name: "crash", rule: fault.Rule{Event: fault.Join, Action: fault.Crash}, want: "join crashed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			faulty(t, []fault.Rule{tt.rule}, func(m *inMemory, _ *rawClient) {
				c := m.connect()
				f := c.join("worker:queue", `{}`)
				require.Equal(t, `error {"reason":"`+tt.want+`"}`, f.Status+" "+string(f.Payload))
				require.Equal(t, frame.Ref(`"1"`), f.JoinRef)
				require.Equal(t, 1, m.Stats().Workers, "the other one")
				require.Equal(t, "worker:queue", m.Faults()[0].Topic)
				require.Equal(t, "ok", c.join("worker:queue", `{}`).Status)
			})
		})
	}
	t.Run("crash after", func(t *testing.T) {
		faulty(t, []fault.Rule{{Event: fault.Join, Action: fault.Crash, When: fault.After}}, func(m *inMemory, _ *rawClient) {
			c := m.connect()
			require.Equal(t, "ok", c.join("worker:queue", `{}`).Status)
			require.Equal(t, "phx_error", c.read().Event)
			require.Equal(t, 1, m.Stats().Workers, "the other one")
		})
	})
	t.Run("reply withheld", func(t *testing.T) {
		faulty(t, []fault.Rule{{Event: fault.Join, Action: fault.Withhold}}, func(m *inMemory, _ *rawClient) {
			c := m.connect()
			c.send("worker:queue", "phx_join", `{}`)
			c.heartbeat()
			require.Equal(t, 2, m.Stats().Workers)
		})
	})
}
