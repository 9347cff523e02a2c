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

// send sends an event and does not wait for a reply.
func (c *rawClient) send(topic, event, payload string) {
	c.t.Helper()
	c.ref++
	data, err := frame.Append(nil, &frame.Frame{
		JoinRef: c.joins[topic], Ref: frame.NewRef(c.ref), Topic: topic, Event: event, Payload: []byte(payload),
	})
	require.NoError(c.t, err)
	require.NoError(c.t, c.conn.WriteMessage(websocket.TextMessage, data))
}

// closed reads until the connection ends and returns the close code.
func (c *rawClient) closed() int {
	c.t.Helper()
	_, data, err := c.conn.ReadMessage()
	require.Error(c.t, err, "instead of a close came %s", data)
	closed, ok := err.(*websocket.CloseError)
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
	require.Equal(m.t, len(m.Faults()), len(record.Faults), "the server knows of them too")
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
					c.send("run:r1", "run:start", `{}`)
					require.Equal(t, tt.code, c.closed())
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

func TestFaultRefuse(t *testing.T) {
	for name, response := range map[string]string{
		"plain":       `{"state":["already in completed state"]}`,
		"nested":      `{"errors":{"id":["has already been taken"]}}`,
		"bare string": `"no"`,
		"null":        `null`,
	} {
		t.Run(name, func(t *testing.T) {
			rule := fault.Rule{Run: "r1", Event: "run:complete", Action: fault.Refuse, Response: []byte(response)}
			faulty(t, []fault.Rule{rule}, func(m *inMemory, c *rawClient) {
				f := c.exchange("run:r1", "run:complete", `{"reason":"success"}`)
				require.Equal(t, []string{"error", response, `"3"`}, []string{f.Status, string(f.Payload), string(f.JoinRef)})
				_, events, strikes := happened(m)
				require.Empty(t, events)
				require.Equal(t, []string{"before run:complete refuse"}, strikes)
				c.ok("run:r1", "run:complete", `{"reason":"success"}`)
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

func TestFaultWithhold(t *testing.T) {
	for _, when := range []fault.When{fault.Before, fault.After} {
		t.Run(string(when), func(t *testing.T) {
			faulty(t, []fault.Rule{{Event: "run:start", Action: fault.Withhold, When: when}}, func(m *inMemory, c *rawClient) {
				c.send("run:r1", "run:start", `{}`)
				c.heartbeat()
				state, _, strikes := happened(m)
				require.Equal(t, []string{string(when) + " run:start withhold"}, strikes)
				require.Equal(t, when == fault.After, state == "started")
				c.ok("run:r1", "fetch:plan", `{}`)
			})
		})
	}
}

// A full database: claims take 15 s, one after the other, and nothing else waits.
func TestFaultDelay(t *testing.T) {
	full := fault.Rule{Event: "claim", Action: fault.Delay, Delay: 15 * time.Second, Count: -1}
	faulty(t, []fault.Rule{full}, func(m *inMemory, c *rawClient) {
		require.NoError(t, m.Enqueue(mockserver.Run{Plan: plan("r2")}))
		require.Equal(t, "work-available", c.read().Event)
		start := time.Now()
		c.send("worker:queue", "claim", `{"demand":1,"worker_name":null}`)
		c.send("worker:queue", "claim", `{"demand":1,"worker_name":null}`)
		c.send("worker:queue", "phx_join", `{}`)
		c.ok("run:r1", "run:start", `{}`)
		c.heartbeat()
		require.Zero(t, time.Since(start))
		record, _ := m.Inspect("r2")
		require.EqualValues(t, "claimed", record.State, "before its worker knows")

		want := []struct {
			part string
			at   time.Duration
		}{
			{part: `"id":"r2"`, at: 15 * time.Second},
			{part: `"runs":[]`, at: 30 * time.Second},
			{part: `{}`, at: 30 * time.Second}, // the join
			{part: `{}`, at: 30 * time.Second}, // the close of the old one
		}
		for i, w := range want {
			f := c.read()
			require.Contains(t, string(f.Payload), w.part)
			require.Equal(t, w.at, time.Since(start), "frame %d", i)
		}
		require.Equal(t, []fault.Action{"delay", "delay"}, []fault.Action{m.Faults()[0].Action, m.Faults()[1].Action})
		require.EqualValues(t, 2, m.Stats().Faults["delay"])
	})
}

func TestFaultDouble(t *testing.T) {
	tests := []struct {
		name  string
		delay time.Duration
		want  string
	}{
		{name: "at once", want: "4 4 5 "},
		{name: "late", delay: time.Minute, want: "4 5 4 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			faulty(t, []fault.Rule{{Event: "run:start", Action: fault.Double, Delay: tt.delay}}, func(m *inMemory, c *rawClient) {
				start := time.Now()
				c.send("run:r1", "run:start", `{}`)
				synctest.Wait()
				c.send("run:r1", "fetch:dataclip", `{}`)
				var refs string
				for range 3 {
					refs += string(c.read().Ref[1:2]) + " "
				}
				require.Equal(t, tt.want, refs)
				require.Equal(t, tt.delay, time.Since(start))
				_, events, strikes := happened(m)
				require.Equal(t, []string{"run:start ok", "fetch:dataclip ok"}, events, "applied once")
				require.Equal(t, []string{"after run:start double"}, strikes)
			})
		})
	}
}

func TestFaultReorder(t *testing.T) {
	faulty(t, []fault.Rule{{Event: "run:start", Action: fault.Reorder, Count: -1}}, func(m *inMemory, c *rawClient) {
		c.send("run:r1", "run:start", `{}`)
		c.heartbeat()
		c.send("run:r1", "fetch:dataclip", `{}`)
		f := c.read()
		require.True(t, f.Binary)
		require.Equal(t, frame.Ref(`"4"`), c.read().Ref, "the start's")

		start := time.Now()
		c.send("run:r1", "run:start", `{}`)
		require.Equal(t, frame.Ref(`"7"`), c.read().Ref, "no other came")
		require.Equal(t, time.Second, time.Since(start))

		c.send("run:r1", "run:start", `{}`)
		c.send("run:r1", "run:start", `{}`)
		require.Equal(t, frame.Ref(`"9"`), c.read().Ref)
		require.Equal(t, frame.Ref(`"8"`), c.read().Ref)
		_, events, strikes := happened(m)
		require.Equal(t, []string{"run:start ok", "fetch:dataclip ok", "run:start ok", "run:start ok", "run:start ok"}, events)
		require.Len(t, strikes, 4)
	})
}

func TestFaultStall(t *testing.T) {
	faulty(t, []fault.Rule{{Event: "run:start", Action: fault.Stall, Delay: 40 * time.Second}}, func(m *inMemory, c *rawClient) {
		start := time.Now()
		c.ok("run:r1", "run:start", `{}`)
		require.Zero(t, time.Since(start))
		c.send("run:r1", "fetch:plan", `{}`) // is read
		require.Zero(t, time.Since(start))
		c.send("run:r1", "fetch:plan", `{}`) // stands in the pipe
		require.Equal(t, 40*time.Second, time.Since(start))
		c.read()
		c.read()
		_, events, strikes := happened(m)
		require.Equal(t, []string{"run:start ok", "fetch:plan ok", "fetch:plan ok"}, events)
		require.Equal(t, []string{"after run:start stall"}, strikes)
	})
}

func TestFaultRestart(t *testing.T) {
	faulty(t, nil, func(m *inMemory, c *rawClient) {
		require.NoError(t, m.Enqueue(mockserver.Run{Plan: plan("r2")}))
		require.NoError(t, m.Restart(0, time.Minute))
		synctest.Wait()
		require.Equal(t, "work-available", c.read().Event)
		require.Equal(t, 1012, c.closed())
		d := websocket.Dialer{NetDialContext: m.listener.DialContext}
		url := "ws://mock/worker/websocket?vsn=2.0.0&token=" + workerToken(t, m.Secret(), nil)
		time.Sleep(59 * time.Second)
		_, resp, err := d.Dial(url, nil)
		require.Error(t, err)
		require.Nil(t, resp, "no answer at all")
		time.Sleep(time.Second)
		require.Equal(t, []string{"r2"}, m.worker().claimIDs(1, `["*"]`))
		strikes := m.Faults()
		require.Equal(t, []any{fault.Restart, "now"}, []any{strikes[0].Action, strikes[0].Event})
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
				go func() { _ = m.Close() }()
				for {
					if _, _, err := c.conn.ReadMessage(); err != nil {
						require.True(t, websocket.IsCloseError(err, 1012), err)
						break
					}
				}
				require.Less(t, time.Since(start), 5*time.Second)
			})
		})
	}
	t.Run("upgrade", func(t *testing.T) {
		faulty(t, []fault.Rule{{Event: fault.Connect, Action: fault.Delay, Delay: long}}, func(m *inMemory, c *rawClient) {
			start := time.Now()
			dialed := make(chan error)
			go func() {
				d := websocket.Dialer{NetDialContext: m.listener.DialContext}
				_, _, err := d.Dial("ws://mock/worker/websocket?vsn=2.0.0&token="+workerToken(t, m.Secret(), nil), nil)
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
