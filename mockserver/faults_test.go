package mockserver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// faulty is a server in a bubble, with a run claimed and joined by a bare
// client, that the faults given are then added to.
func faulty(t *testing.T, rules []fault.Rule, test func(m *mocktest.Server, c *mocktest.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, WakeDebounce: -1})
		c, _ := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1")})
		for _, r := range rules {
			_, err := m.AddFault(r)
			require.NoError(t, err)
		}
		test(m, c)
	})
}

// happened is what the server says of the run: its state, the events that were
// applied with their status, and what struck.
func happened(m *mocktest.Server) (state string, events, strikes []string) {
	m.T.Helper()
	record, ok := m.Inspect("r1")
	require.True(m.T, ok)
	for _, e := range record.Events {
		events = append(events, e.Event+" "+e.Status)
	}
	for _, s := range record.Faults {
		require.Equal(m.T, []string{"r1", "run:r1", "mighty-worker"}, []string{s.Run, s.Topic, s.Worker})
		require.Positive(m.T, s.Socket)
		strikes = append(strikes, string(s.When)+" "+s.Event+" "+string(s.Action))
	}
	require.Len(m.T, m.Faults(), len(record.Faults), "the server knows of them too")
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
				faulty(t, []fault.Rule{tt.rule}, func(m *mocktest.Server, c *mocktest.Client) {
					c.OK("run:r1", "fetch:plan", `{}`)
					start := time.Now()
					c.Send("run:r1", "run:start", `{}`)
					require.Equal(t, tt.code, c.Closed())
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
					m.Worker().OK("worker:queue", "claim", `{"demand":1,"worker_name":null}`)
				})
			})
		}
	}
}

func TestFaultCrash(t *testing.T) {
	for _, when := range []fault.When{fault.Before, fault.After} {
		t.Run(string(when), func(t *testing.T) {
			faulty(t, []fault.Rule{{Event: "run:start", Action: fault.Crash, When: when}}, func(m *mocktest.Server, c *mocktest.Client) {
				f := c.Exchange("run:r1", "run:start", `{}`)
				require.Equal(t, frame.Frame{JoinRef: `"3"`, Ref: `"3"`, Topic: "run:r1", Event: "phx_error", Payload: []byte(`{}`)}, f)
				f = c.Exchange("run:r1", "run:start", `{}`)
				require.Equal(t, `error {"reason":"unmatched topic"}`, f.Status+" "+string(f.Payload))
				c.Heartbeat()
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
			faulty(t, []fault.Rule{tt.rule}, func(m *mocktest.Server, _ *mocktest.Client) {
				c := m.Connect()
				f := c.Join("worker:queue", `{}`)
				require.Equal(t, `error {"reason":"`+tt.want+`"}`, f.Status+" "+string(f.Payload))
				require.Equal(t, frame.Ref(`"1"`), f.JoinRef)
				require.Equal(t, 1, m.Stats().Workers, "the other one")
				require.Equal(t, "worker:queue", m.Faults()[0].Topic)
				require.Equal(t, "ok", c.Join("worker:queue", `{}`).Status)
			})
		})
	}
	t.Run("crash after", func(t *testing.T) {
		faulty(t, []fault.Rule{{Event: fault.Join, Action: fault.Crash, When: fault.After}}, func(m *mocktest.Server, _ *mocktest.Client) {
			c := m.Connect()
			require.Equal(t, "ok", c.Join("worker:queue", `{}`).Status)
			require.Equal(t, "phx_error", c.Read().Event)
			require.Equal(t, 1, m.Stats().Workers, "the other one")
		})
	})
	t.Run("reply withheld", func(t *testing.T) {
		faulty(t, []fault.Rule{{Event: fault.Join, Action: fault.Withhold}}, func(m *mocktest.Server, _ *mocktest.Client) {
			c := m.Connect()
			c.Send("worker:queue", "phx_join", `{}`)
			c.Heartbeat()
			require.Equal(t, 2, m.Stats().Workers)
		})
	})
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
			faulty(t, []fault.Rule{rule}, func(m *mocktest.Server, c *mocktest.Client) {
				f := c.Exchange("run:r1", "run:complete", `{"reason":"success"}`)
				require.Equal(t, []string{"error", response, `"3"`}, []string{f.Status, string(f.Payload), string(f.JoinRef)})
				_, events, strikes := happened(m)
				require.Empty(t, events)
				require.Equal(t, []string{"before run:complete refuse"}, strikes)
				c.OK("run:r1", "run:complete", `{"reason":"success"}`)
			})
		})
	}
}

func TestFaultAnswer(t *testing.T) {
	rule := fault.Rule{Run: "r1", Event: "run:complete", Action: fault.Answer, Response: []byte(`{"of":"nobody"}`)}
	faulty(t, []fault.Rule{rule}, func(m *mocktest.Server, c *mocktest.Client) {
		f := c.Exchange("run:r1", "run:complete", `{"reason":"success"}`)
		require.Equal(t, []string{"ok", `{"of":"nobody"}`, `"3"`}, []string{f.Status, string(f.Payload), string(f.JoinRef)})
		_, events, strikes := happened(m)
		require.Empty(t, events)
		require.Equal(t, []string{"before run:complete answer"}, strikes)
		c.OK("run:r1", "run:complete", `{"reason":"success"}`)
	})
}

func TestFaultWithhold(t *testing.T) {
	for _, when := range []fault.When{fault.Before, fault.After} {
		t.Run(string(when), func(t *testing.T) {
			faulty(t, []fault.Rule{{Event: "run:start", Action: fault.Withhold, When: when}}, func(m *mocktest.Server, c *mocktest.Client) {
				c.Send("run:r1", "run:start", `{}`)
				c.Heartbeat()
				state, _, strikes := happened(m)
				require.Equal(t, []string{string(when) + " run:start withhold"}, strikes)
				require.Equal(t, when == fault.After, state == "started")
				c.OK("run:r1", "fetch:plan", `{}`)
			})
		})
	}
}

// A full database: claims take 15 s, one after the other, and nothing else waits.
func TestFaultDelay(t *testing.T) {
	full := fault.Rule{Event: "claim", Action: fault.Delay, Delay: 15 * time.Second, Count: -1}
	faulty(t, []fault.Rule{full}, func(m *mocktest.Server, c *mocktest.Client) {
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r2")})
		require.Equal(t, "work-available", c.Read().Event)
		start := time.Now()
		c.Send("worker:queue", "claim", `{"demand":1,"worker_name":null}`)
		c.Send("worker:queue", "claim", `{"demand":1,"worker_name":null}`)
		c.Send("worker:queue", "phx_join", `{}`)
		c.OK("run:r1", "run:start", `{}`)
		c.Heartbeat()
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
			f := c.Read()
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
		{name: "late", delay: 40 * time.Second, want: "4 5 4 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			faulty(t, []fault.Rule{{Event: "run:start", Action: fault.Double, Delay: tt.delay}}, func(m *mocktest.Server, c *mocktest.Client) {
				start := time.Now()
				c.Send("run:r1", "run:start", `{}`)
				synctest.Wait()
				c.Send("run:r1", "fetch:dataclip", `{}`)
				var refs string
				for range 3 {
					refs += string(c.Read().Ref[1:2]) + " "
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
	faulty(t, []fault.Rule{{Event: "run:start", Action: fault.Reorder, Count: -1}}, func(m *mocktest.Server, c *mocktest.Client) {
		c.Send("run:r1", "run:start", `{}`)
		c.Heartbeat()
		c.Send("run:r1", "fetch:dataclip", `{}`)
		f := c.Read()
		require.True(t, f.Binary)
		require.Equal(t, frame.Ref(`"4"`), c.Read().Ref, "the start's")

		start := time.Now()
		c.Send("run:r1", "run:start", `{}`)
		require.Equal(t, frame.Ref(`"7"`), c.Read().Ref, "no other came")
		require.Equal(t, time.Second, time.Since(start))

		c.Send("run:r1", "run:start", `{}`)
		c.Send("run:r1", "run:start", `{}`)
		require.Equal(t, frame.Ref(`"9"`), c.Read().Ref)
		require.Equal(t, frame.Ref(`"8"`), c.Read().Ref)
		_, events, strikes := happened(m)
		require.Equal(t, []string{"run:start ok", "fetch:dataclip ok", "run:start ok", "run:start ok", "run:start ok"}, events)
		require.Len(t, strikes, 4)
	})
}

func TestFaultStall(t *testing.T) {
	faulty(t, []fault.Rule{{Event: "run:start", Action: fault.Stall, Delay: 40 * time.Second}}, func(m *mocktest.Server, c *mocktest.Client) {
		start := time.Now()
		c.OK("run:r1", "run:start", `{}`)
		require.Zero(t, time.Since(start))
		c.Send("run:r1", "fetch:plan", `{}`) // is read
		require.Zero(t, time.Since(start))
		c.Send("run:r1", "fetch:plan", `{}`) // stands in the pipe
		require.Equal(t, 40*time.Second, time.Since(start))
		c.Read()
		c.Read()
		_, events, strikes := happened(m)
		require.Equal(t, []string{"run:start ok", "fetch:plan ok", "fetch:plan ok"}, events)
		require.Equal(t, []string{"after run:start stall"}, strikes)
	})
}
