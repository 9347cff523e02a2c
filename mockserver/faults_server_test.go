package mockserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

func TestFaultRestart(t *testing.T) {
	faulty(t, nil, func(m *mocktest.Server, c *mocktest.Client) {
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r2")})
		require.NoError(t, m.Restart(0, time.Minute))
		synctest.Wait()
		require.Equal(t, "work-available", c.Read().Event)
		require.Equal(t, 1012, c.Closed())
		d := websocket.Dialer{NetDialContext: m.Listener.DialContext}
		url := "ws://mock/worker/websocket?vsn=2.0.0&token=" + mocktest.WorkerToken(t, m.Secret(), nil)
		time.Sleep(59 * time.Second)
		for _, url := range []string{url, url + "bad"} {
			_, resp, err := d.Dial(url, nil)
			require.Error(t, err)
			require.Nil(t, resp, "no answer at all")
		}
		time.Sleep(time.Second)
		require.Equal(t, []string{"r2"}, m.Worker().ClaimIDs(1, `["*"]`))
		strikes := m.Faults()
		require.Equal(t, []any{fault.Restart, "now"}, []any{strikes[0].Action, strikes[0].Event})
	})
}

// A client that is half in when the server restarts must not slip through.
func TestFaultRestartDuringAnUpgrade(t *testing.T) {
	slow := fault.Rule{Event: fault.Connect, Action: fault.Delay, Delay: 5 * time.Second}
	faulty(t, []fault.Rule{slow}, func(m *mocktest.Server, c *mocktest.Client) {
		time.AfterFunc(time.Second, func() { _ = m.Restart(1006, 10*time.Second) })
		d := websocket.Dialer{NetDialContext: m.Listener.DialContext}
		_, _, err := d.Dial("ws://mock/worker/websocket?vsn=2.0.0&token="+mocktest.WorkerToken(t, m.Secret(), nil), nil)
		require.Error(t, err)
		require.Equal(t, 1006, c.Closed())
		require.Zero(t, m.Stats().Sockets)
	})
}

func TestFaultKick(t *testing.T) {
	for _, code := range []int{1000, 1006, 1011, 1012} {
		faulty(t, nil, func(m *mocktest.Server, c *mocktest.Client) {
			require.NoError(t, m.Kick(code))
			require.Equal(t, code, c.Closed())
			require.Len(t, m.Faults(), 1)
			require.Equal(t, "ok", m.Connect().Join("worker:queue", `{}`).Status, "can come back at once")
		})
	}
	faulty(t, nil, func(m *mocktest.Server, c *mocktest.Client) {
		require.EqualError(t, m.Kick(42), "bad fault: code must be a close code: 1000 to 4999, except 1005, 1006 and 1015, which cannot be sent (use the action drop for 1006)")
		c.Heartbeat()
	})
}

func TestFaultExpire(t *testing.T) {
	rejoin := func(m *mocktest.Server, c *mocktest.Client) string {
		token := "" // whatever: the join is judged by its expiry first of all
		for _, e := range m.Transcript() {
			f, err := frame.DecodePush(e.Data, e.Binary)
			if err == nil && f.Topic == "run:r1" && f.Event == frame.Join {
				token = string(f.Payload)
			}
		}
		f := c.Join("run:r1", token)
		return f.Status + " " + string(f.Payload)
	}
	t.Run("at a join", func(t *testing.T) {
		faulty(t, []fault.Rule{{Event: fault.Join, Run: "r1", Action: fault.Expire, Skip: 1}}, func(m *mocktest.Server, c *mocktest.Client) {
			require.Equal(t, `ok {}`, rejoin(m, c))
			require.Equal(t, "phx_close", c.Read().Event)
			require.Equal(t, `error {"reason":"unauthorized"}`, rejoin(m, c))
			_, _, strikes := happened(m)
			require.Equal(t, []string{"before join expire"}, strikes)
		})
	})
	t.Run("at will", func(t *testing.T) {
		faulty(t, nil, func(m *mocktest.Server, c *mocktest.Client) {
			require.NoError(t, m.ExpireToken("r1"))
			c.OK("run:r1", "run:start", `{}`) // what is joined stays so
			require.Equal(t, `error {"reason":"unauthorized"}`, rejoin(m, c))
			record, _ := m.Inspect("r1")
			require.Equal(t, "now", record.Faults[0].Event)
		})
	})
}

func TestFaultFrameLimit(t *testing.T) {
	faulty(t, []fault.Rule{{Over: 100, Action: fault.Drop, Count: -1}}, func(m *mocktest.Server, c *mocktest.Client) {
		c.OK("run:r1", "run:start", `{}`)
		c.Send("run:r1", "run:log", `{"message":["`+strings.Repeat("x", 100)+`"]}`)
		require.Equal(t, 1006, c.Closed())
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
			faulty(t, []fault.Rule{tt.rule}, func(m *mocktest.Server, _ *mocktest.Client) {
				start := time.Now()
				d := websocket.Dialer{NetDialContext: m.Listener.DialContext}
				conn, resp, _ := d.Dial("ws://mock/worker/websocket?vsn=2.0.0&token="+mocktest.WorkerToken(t, m.Secret(), nil), nil)
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
				m.Worker()
			})
		})
	}
}

func TestFaultOfOneWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, Faults: []fault.Rule{{Worker: "slow", Action: fault.Withhold, Count: -1}}})
		connect := func(name string) *mocktest.Client {
			d := websocket.Dialer{NetDialContext: m.Listener.DialContext}
			return mocktest.Dial(t, d, "ws://mock/worker", mocktest.WorkerToken(t, m.Secret(), map[string]any{"worker_id": name}))
		}
		slow, fast := connect("slow"), connect("fast")
		slow.Send("worker:queue", "phx_join", `{}`)
		require.Equal(t, "ok", fast.Join("worker:queue", `{}`).Status)
		synctest.Wait() // the two connections are served side by side
		require.Equal(t, "slow", m.Faults()[0].Worker)

		_, err := m.AddFault(fault.Rule{Event: fault.Now, Worker: "slow", Action: fault.Drop})
		require.NoError(t, err)
		require.Equal(t, 1006, slow.Closed())
		fast.Heartbeat()
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
			faulty(t, []fault.Rule{rule}, func(m *mocktest.Server, c *mocktest.Client) {
				c.Send("run:r1", "run:start", `{}`)
				c.Send("run:r1", "fetch:plan", `{}`)
				start := time.Now()
				closed := make(chan error, 1)
				go func() { closed <- m.Close() }()
				for {
					if _, _, err := c.Conn.ReadMessage(); err != nil {
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
		faulty(t, []fault.Rule{{Event: fault.Connect, Action: fault.Delay, Delay: long}}, func(m *mocktest.Server, c *mocktest.Client) {
			start := time.Now()
			url := "ws://mock/worker/websocket?vsn=2.0.0&token=" + mocktest.WorkerToken(t, m.Secret(), nil)
			dialed := make(chan error)
			go func() {
				d := websocket.Dialer{NetDialContext: m.Listener.DialContext}
				_, _, err := d.Dial(url, nil)
				dialed <- err
			}()
			synctest.Wait()
			go func() { _ = c.Closed() }()
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
			m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, WakeDebounce: -1, FaultSeed: seed, Faults: []fault.Rule{
				{Topic: "run:*", Action: fault.Refuse, Response: []byte(`1`), Probability: 0.3},
			}})
			m.Queue(mockserver.Run{Plan: mocktest.Plan("r1")})
			c := m.Worker()
			run := c.Claim(`{"demand":1,"worker_name":null}`)[0]
			for range 50 {
				struck = append(struck, c.Join("run:r1", `{"token":"`+run.Token+`"}`).Status)
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

func TestHTTPFaults(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, WakeDebounce: -1, FaultSeed: 7})
	c, _ := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1")})

	status, body := mocktest.Call(t, m, "POST", "/faults", `{"event":"run:start","run":"r1","action":"refuse","response":"no"}`)
	require.Equal(t, `201 {"ids":[1]}`+"\n", statusAnd(status, body))
	status, body = mocktest.Call(t, m, "POST", "/faults", ` [{"event":"claim","action":"drop"}, {"event":"heartbeat","action":"withhold","count":-1}]`)
	require.Equal(t, `201 {"ids":[2,3]}`+"\n", statusAnd(status, body))
	require.Equal(t, "error", c.Exchange("run:r1", "run:start", `{}`).Status)

	status, body = mocktest.Call(t, m, "GET", "/faults", "")
	require.Equal(t, 200, status)
	var got struct {
		Seed  uint64
		Rules []struct {
			ID, Seen, Struck int
			Action           string
		}
		Strikes []fault.Strike
	}
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.EqualValues(t, 7, got.Seed)
	require.Len(t, got.Rules, 3)
	require.Equal(t, 1, got.Rules[0].Struck)
	require.Equal(t, "withhold", got.Rules[2].Action)
	require.Len(t, got.Strikes, 1)
	require.Equal(t, "r1", got.Strikes[0].Run)
	status, body = mocktest.Call(t, m, "GET", "/run/r1", "")
	require.Equal(t, 200, status)
	require.Contains(t, body, `"rule":1,"action":"refuse","when":"before","event":"run:start","topic":"run:r1","run":"r1","worker":"mighty-worker","socket":1}`)
	_, body = mocktest.Call(t, m, "GET", "/stats", "")
	require.Contains(t, body, `"faults":{"refuse":1}`)

	status, body = mocktest.Call(t, m, "DELETE", "/faults/2", "")
	require.Equal(t, `200 {"removed":1}`+"\n", statusAnd(status, body))
	status, body = mocktest.Call(t, m, "DELETE", "/faults/2", "")
	require.Equal(t, `404 {"error":"no fault \"2\""}`+"\n", statusAnd(status, body))
	c.ClaimIDs(1, `["*"]`) // no drop
	status, body = mocktest.Call(t, m, "DELETE", "/faults", "")
	require.Equal(t, `200 {"removed":2}`+"\n", statusAnd(status, body))
	c.Heartbeat() // not withheld
	require.Empty(t, m.FaultRules())
	require.Len(t, m.Faults(), 1)

	status, _ = mocktest.Call(t, m, "POST", "/faults", `{"event":"now","action":"close","code":4000}`)
	require.Equal(t, 201, status)
	require.Equal(t, 4000, c.Closed())
}

func statusAnd(status int, body string) string { return fmt.Sprint(status, " ", body) }

func TestHTTPBadFaults(t *testing.T) {
	tests := []struct {
		name   string
		body   string
		status int
		want   string
	}{
		{name: "empty", body: ``, status: 400, want: `{"error":"the body is empty: send JSON"}`},
		{name: "no JSON", body: `{`, status: 400, want: `{"error":"the body is not JSON: unexpected end of JSON input"}`},
		{name: "no rule", body: `7`, status: 422, want: `{"errors":{"fault":["must be a JSON object"]}}`},
		{name: "no action", body: `{"event":"claim"}`, status: 422, want: `{"errors":{"action":["can't be blank"]}}`},
		{name: "bad delay", body: `{"event":"claim","action":"delay","delay":"soon"}`, status: 422, want: `{"errors":{"delay":["must be a time such as \"500ms\" or \"15s\""]}}`},
		{
			name: "one bad in a list", body: `[{"action":"drop"},{"action":"drop","skip":-1}]`, status: 422,
			want: `{"errors":{"[1].skip":["must not be negative"]}}`,
		},
	}
	m := mocktest.New(t, mockserver.Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := mocktest.Call(t, m, "POST", "/faults", tt.body)
			require.Equal(t, tt.status, status, body)
			require.Equal(t, tt.want+"\n", body)
		})
	}
	require.Empty(t, m.FaultRules(), "nothing bad was added")
	_, err := mockserver.New(mockserver.Config{Faults: []fault.Rule{{Action: "explode"}}})
	require.ErrorContains(t, err, "bad fault: action must be one of")
}
