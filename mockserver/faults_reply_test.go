package mockserver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

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
		m.enqueue(mockserver.Run{Plan: plan("r2")})
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
		{name: "late", delay: 40 * time.Second, want: "4 5 4 "},
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
