package mockserver_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

func TestFaultRestart(t *testing.T) {
	faulty(t, nil, func(m *inMemory, c *rawClient) {
		m.enqueue(mockserver.Run{Plan: plan("r2")})
		require.NoError(t, m.Restart(0, time.Minute))
		synctest.Wait()
		require.Equal(t, "work-available", c.read().Event)
		require.Equal(t, 1012, c.closed())
		d := websocket.Dialer{NetDialContext: m.listener.DialContext}
		url := "ws://mock/worker/websocket?vsn=2.0.0&token=" + workerToken(t, m.Secret(), nil)
		time.Sleep(59 * time.Second)
		for _, url := range []string{url, url + "bad"} {
			_, resp, err := d.Dial(url, nil)
			require.Error(t, err)
			require.Nil(t, resp, "no answer at all")
		}
		time.Sleep(time.Second)
		require.Equal(t, []string{"r2"}, m.worker().claimIDs(1, `["*"]`))
		strikes := m.Faults()
		require.Equal(t, []any{fault.Restart, "now"}, []any{strikes[0].Action, strikes[0].Event})
	})
}

// A client that is half in when the server restarts must not slip through.
func TestFaultRestartDuringAnUpgrade(t *testing.T) {
	slow := fault.Rule{Event: fault.Connect, Action: fault.Delay, Delay: 5 * time.Second}
	faulty(t, []fault.Rule{slow}, func(m *inMemory, c *rawClient) {
		time.AfterFunc(time.Second, func() { _ = m.Restart(1006, 10*time.Second) })
		d := websocket.Dialer{NetDialContext: m.listener.DialContext}
		_, _, err := d.Dial("ws://mock/worker/websocket?vsn=2.0.0&token="+workerToken(t, m.Secret(), nil), nil)
		require.Error(t, err)
		require.Equal(t, 1006, c.closed())
		require.Zero(t, m.Stats().Sockets)
	})
}

func TestFaultKick(t *testing.T) {
	for _, code := range []int{1000, 1006, 1011, 1012} {
		faulty(t, nil, func(m *inMemory, c *rawClient) {
			require.NoError(t, m.Kick(code))
			require.Equal(t, code, c.closed())
			require.Len(t, m.Faults(), 1)
			require.Equal(t, "ok", m.connect().join("worker:queue", `{}`).Status, "can come back at once")
		})
	}
	faulty(t, nil, func(m *inMemory, c *rawClient) {
		require.EqualError(t, m.Kick(42), "bad fault: code must be a close code: 1000 to 4999, except 1005, 1006 and 1015, which cannot be sent (use the action drop for 1006)")
		c.heartbeat()
	})
}

func TestFaultExpire(t *testing.T) {
	rejoin := func(m *inMemory, c *rawClient) string {
		token := "" // whatever: the join is judged by its expiry first of all
		for _, e := range m.Transcript() {
			f, err := frame.DecodePush(e.Data, e.Binary)
			if err == nil && f.Topic == "run:r1" && f.Event == frame.Join {
				token = string(f.Payload)
			}
		}
		f := c.join("run:r1", token)
		return f.Status + " " + string(f.Payload)
	}
	t.Run("at a join", func(t *testing.T) {
		faulty(t, []fault.Rule{{Event: fault.Join, Run: "r1", Action: fault.Expire, Skip: 1}}, func(m *inMemory, c *rawClient) {
			require.Equal(t, `ok {}`, rejoin(m, c))
			require.Equal(t, "phx_close", c.read().Event)
			require.Equal(t, `error {"reason":"unauthorized"}`, rejoin(m, c))
			_, _, strikes := happened(m)
			require.Equal(t, []string{"before join expire"}, strikes)
		})
	})
	t.Run("at will", func(t *testing.T) {
		faulty(t, nil, func(m *inMemory, c *rawClient) {
			require.NoError(t, m.ExpireToken("r1"))
			c.ok("run:r1", "run:start", `{}`) // what is joined stays so
			require.Equal(t, `error {"reason":"unauthorized"}`, rejoin(m, c))
			record, _ := m.Inspect("r1")
			require.Equal(t, "now", record.Faults[0].Event)
		})
	})
}

func TestFaultFrameLimit(t *testing.T) {
	faulty(t, []fault.Rule{{Over: 100, Action: fault.Drop, Count: -1}}, func(m *inMemory, c *rawClient) {
		c.ok("run:r1", "run:start", `{}`)
		c.send("run:r1", "run:log", `{"message":["`+strings.Repeat("x", 100)+`"]}`)
		require.Equal(t, 1006, c.closed())
		synctest.Wait()
		_, events, strikes := happened(m)
		require.Equal(t, []string{"run:start ok"}, events)
		require.Equal(t, []string{"before run:log drop"}, strikes)
	})
}

func TestFaultyUpgrades(t *testing.T) {
	tests := []struct {
		name   string
		rule   fault.Rule
		status int // 0 is no answer
		after  time.Duration
	}{
		{name: "refuse", rule: fault.Rule{Action: fault.Refuse}, status: 503},
		{name: "refuse with a status", rule: fault.Rule{Action: fault.Refuse, Code: 403}, status: 403},
		{name: "drop", rule: fault.Rule{Action: fault.Drop}},
		{name: "delay", rule: fault.Rule{Action: fault.Delay, Delay: 9 * time.Second}, status: 101, after: 9 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.rule.Event = fault.Connect
			faulty(t, []fault.Rule{tt.rule}, func(m *inMemory, _ *rawClient) {
				start := time.Now()
				d := websocket.Dialer{NetDialContext: m.listener.DialContext}
				conn, resp, _ := d.Dial("ws://mock/worker/websocket?vsn=2.0.0&token="+workerToken(t, m.Secret(), nil), nil)
				if conn != nil {
					defer func() { _ = conn.Close() }()
				}
				if tt.status == 0 {
					require.Nil(t, resp)
				} else {
					require.Equal(t, tt.status, resp.StatusCode)
				}
				require.Equal(t, tt.after, time.Since(start))
				strike := m.Faults()[0]
				require.Equal(t, []any{"connect", "mighty-worker", tt.rule.Action}, []any{strike.Event, strike.Worker, strike.Action})
				m.worker()
			})
		})
	}
}

func TestFaultOfOneWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newInMemory(t, mockserver.Config{OpaqueTokens: true, Faults: []fault.Rule{{Worker: "slow", Action: fault.Withhold, Count: -1}}})
		connect := func(name string) *rawClient {
			d := websocket.Dialer{NetDialContext: m.listener.DialContext}
			return dialRaw(t, d, "ws://mock/worker", workerToken(t, m.Secret(), map[string]any{"worker_id": name}))
		}
		slow, fast := connect("slow"), connect("fast")
		slow.send("worker:queue", "phx_join", `{}`)
		require.Equal(t, "ok", fast.join("worker:queue", `{}`).Status)
		synctest.Wait() // the two connections are served side by side
		require.Equal(t, "slow", m.Faults()[0].Worker)

		_, err := m.AddFault(fault.Rule{Event: fault.Now, Worker: "slow", Action: fault.Drop})
		require.NoError(t, err)
		require.Equal(t, 1006, slow.closed())
		fast.heartbeat()
	})
}

// Close must not wait for what a fault holds up.
func TestCloseEndsFaults(t *testing.T) {
	const long = time.Hour
	for name, rule := range map[string]fault.Rule{
		"stall": {Event: "run:start", Action: fault.Stall, Delay: long},
		"delay": {Event: "run:start", Action: fault.Delay, Delay: long},
	} {
		t.Run(name, func(t *testing.T) {
			faulty(t, []fault.Rule{rule}, func(m *inMemory, c *rawClient) {
				c.send("run:r1", "run:start", `{}`)
				c.send("run:r1", "fetch:plan", `{}`)
				start := time.Now()
				closed := make(chan error, 1)
				go func() { closed <- m.Close() }()
				for {
					if _, _, err := c.conn.ReadMessage(); err != nil {
						require.True(t, websocket.IsCloseError(err, 1012), err)
						break
					}
				}
				require.NoError(t, <-closed)
				require.Less(t, time.Since(start), 5*time.Second)
			})
		})
	}
	t.Run("upgrade", func(t *testing.T) {
		faulty(t, []fault.Rule{{Event: fault.Connect, Action: fault.Delay, Delay: long}}, func(m *inMemory, c *rawClient) {
			start := time.Now()
			url := "ws://mock/worker/websocket?vsn=2.0.0&token=" + workerToken(t, m.Secret(), nil)
			dialed := make(chan error)
			go func() {
				d := websocket.Dialer{NetDialContext: m.listener.DialContext}
				_, _, err := d.Dial(url, nil)
				dialed <- err
			}()
			synctest.Wait()
			go func() { _ = c.closed() }()
			require.NoError(t, m.Close())
			require.Error(t, <-dialed)
			require.Less(t, time.Since(start), 5*time.Second)
		})
	})
}

// The same seed and the same messages, another server: the same fate.
func TestFaultSeed(t *testing.T) {
	fate := func(seed uint64) (struck []string) {
		synctest.Test(t, func(t *testing.T) {
			m := newInMemory(t, mockserver.Config{OpaqueTokens: true, WakeDebounce: -1, FaultSeed: seed, Faults: []fault.Rule{
				{Topic: "run:*", Action: fault.Refuse, Response: []byte(`1`), Probability: 0.3},
			}})
			m.enqueue(mockserver.Run{Plan: plan("r1")})
			c := m.worker()
			run := c.claim(`{"demand":1,"worker_name":null}`)[0]
			for range 50 {
				struck = append(struck, c.join("run:r1", `{"token":"`+run.Token+`"}`).Status)
			}
			require.Len(t, m.Faults(), strings.Count(strings.Join(struck, ""), "error"))
		})
		return struck
	}
	first := fate(7)
	require.Contains(t, first, "error")
	require.Contains(t, first, "ok")
	require.Equal(t, first, fate(7))
	require.NotEqual(t, first, fate(8))
}
