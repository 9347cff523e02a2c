package mockserver_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
)

func TestClaimOrder(t *testing.T) {
	type queued struct {
		id, queue string
		priority  mockserver.Priority
	}
	all := []queued{
		{id: "default-1"},
		{id: "fast-1", queue: "fast_lane"},
		{id: "manual-1", queue: "manual"},
		{id: "default-now", priority: mockserver.Immediate},
		{id: "manual-2", queue: "manual"},
		{id: "other-1", queue: "other"},
		{id: "fast-now", queue: "fast_lane", priority: mockserver.Immediate},
	}
	tests := []struct {
		name   string
		queues string
		demand int
		want   []string
	}{
		{
			name: "preference", queues: `["manual","*"]`, demand: 9,
			want: []string{"manual-1", "manual-2", "default-now", "fast-now", "default-1", "fast-1", "other-1"},
		},
		{
			name: "wildcard first", queues: `["*","manual"]`, demand: 9,
			want: []string{"default-now", "fast-now", "default-1", "fast-1", "other-1", "manual-1", "manual-2"},
		},
		{
			name: "wildcard alone", queues: `["*"]`, demand: 9,
			want: []string{"default-now", "fast-now", "default-1", "fast-1", "manual-1", "manual-2", "other-1"},
		},
		{name: "filter", queues: `["fast_lane"]`, demand: 9, want: []string{"fast-now", "fast-1"}},
		{
			name: "a filter has no preference", queues: `["manual","fast_lane"]`, demand: 9,
			want: []string{"fast-now", "fast-1", "manual-1", "manual-2"},
		},
		{name: "nothing there", queues: `["nope"]`, demand: 9, want: []string{}},
		{name: "demand", queues: `["manual","*"]`, demand: 3, want: []string{"manual-1", "manual-2", "default-now"}},
		{name: "no demand", queues: `["*"]`, demand: 0, want: []string{}},
		{name: "malformed queues", queues: `"manual"`, demand: 1, want: []string{"manual-1"}},
		{name: "empty queues", queues: `[]`, demand: 1, want: []string{"manual-1"}},
		{name: "queues of anything", queues: `["fast_lane",7]`, demand: 1, want: []string{"manual-1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newInMemory(t, mockserver.Config{OpaqueTokens: true})
			for _, q := range all {
				m.enqueue(mockserver.Run{Plan: plan(q.id), Queue: q.queue, Priority: q.priority})
			}
			c := m.worker()
			require.Equal(t, tt.want, c.claimIDs(tt.demand, tt.queues))
			require.Equal(t, len(all)-len(tt.want), m.Stats().Available)
		})
	}
}

// A claimed run stays claimed, also if its worker is gone before the reply.
func TestClaimIsNotRolledBack(t *testing.T) {
	m := newInMemory(t, mockserver.Config{OpaqueTokens: true})
	m.enqueue(mockserver.Run{Plan: plan("r1")})
	first := m.worker()
	require.Equal(t, []string{"r1"}, first.claimIDs(1, `["*"]`))
	require.NoError(t, first.conn.Close())
	require.Empty(t, m.worker().claimIDs(1, `["*"]`))
	record, _ := m.Inspect("r1")
	require.Equal(t, mockserver.State("claimed"), record.State)
}

func TestClaimsThatCrash(t *testing.T) {
	for name, payload := range map[string]string{
		"no demand":          `{"worker_name":"w","queues":["*"]}`,
		"no worker_name":     `{"demand":1,"queues":["*"]}`,
		"null demand":        `{"demand":null,"worker_name":"w"}`,
		"negative demand":    `{"demand":-1,"worker_name":"w"}`,
		"half a run":         `{"demand":0.5,"worker_name":"w"}`,
		"worker_name number": `{"demand":1,"worker_name":7}`,
		"a list":             `[]`,
	} {
		t.Run(name, func(t *testing.T) {
			m := newInMemory(t, mockserver.Config{})
			c := m.worker()
			got := c.exchange("worker:queue", "claim", payload)
			require.Equal(t, frame.Frame{JoinRef: `"1"`, Ref: `"1"`, Topic: "worker:queue", Event: "phx_error", Payload: []byte(`{}`)}, got)
			got = c.exchange("worker:queue", "claim", `{"demand":1,"worker_name":"w"}`)
			require.Equal(t, `error {"reason":"unmatched topic"}`, got.Status+" "+string(got.Payload))
			require.Empty(t, got.JoinRef)
			require.Equal(t, "ok", c.join("worker:queue", `{}`).Status, "the socket has survived")
		})
	}
}

func TestLostRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newInMemory(t, mockserver.Config{
			JanitorInterval: time.Second, RunTimeout: 90 * time.Second, IdleTimeout: time.Hour,
			WakeDebounce: time.Hour, // nobody reads meanwhile
		})
		for _, id := range []string{"claimed", "started", "waiting"} {
			m.enqueue(mockserver.Run{Plan: plan(id)})
		}
		c := m.worker()
		runs := c.claim(`{"demand":2,"worker_name":null}`)
		require.Equal(t, "ok", c.join("run:started", `{"token":"`+runs[1].Token+`"}`).Status)
		time.Sleep(30 * time.Second)
		c.ok("run:started", "run:start", `{}`)

		lost, err := m.Wait(t.Context(), "claimed")
		require.NoError(t, err)
		require.Equal(t, mockserver.Result{ID: "claimed", State: "lost", Reason: "lost", ErrorType: "LostAfterClaim"}, lost)
		record, _ := m.Inspect("claimed")
		require.Equal(t, 101*time.Second, record.FinishedAt.Sub(record.ClaimedAt), "the limit, the grace, the interval")

		lost, err = m.Wait(t.Context(), "started")
		require.NoError(t, err)
		require.Equal(t, mockserver.Result{ID: "started", State: "lost", Reason: "lost", ErrorType: "LostAfterStart"}, lost)
		record, _ = m.Inspect("started")
		require.Equal(t, 101*time.Second, record.FinishedAt.Sub(record.StartedAt))

		// Too late for the worker, and for any other.
		got := c.exchange("run:started", "run:complete", `{"reason":"success"}`)
		require.Equal(t, `{"state":["already in completed state"]}`, string(got.Payload))
		require.JSONEq(t, `{"reason":"unauthorized"}`, string(c.join("run:started", `{"token":"`+runs[1].Token+`"}`).Payload))
		require.Equal(t, []string{"waiting"}, c.claimIDs(9, `["*"]`))
		stats := m.Stats()
		require.EqualValues(t, 2, stats.Ended["lost"])
		require.Equal(t, 1, stats.Claimed)
	})
}

func TestWorkAvailable(t *testing.T) {
	// next returns what came and after how long.
	next := func(c *rawClient) (string, time.Duration) {
		start := time.Now()
		_, data, err := c.conn.ReadMessage()
		require.NoError(c.t, err)
		return string(data), time.Since(start)
	}
	const wake = `[null,null,"worker:queue","work-available",{}]`
	t.Run("once, half a second after the first of many", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newInMemory(t, mockserver.Config{OpaqueTokens: true})
			a, b := m.worker(), m.worker()
			for i := range 20 {
				m.enqueue(mockserver.Run{Plan: plan(fmt.Sprint("r", i))})
				time.Sleep(10 * time.Millisecond)
			}
			for _, c := range []*rawClient{a, b} {
				got, _ := next(c)
				require.Equal(t, wake, got)
			}
			time.Sleep(2 * time.Second)
			require.EqualValues(t, 1, m.Stats().Wakes)
			m.enqueue(mockserver.Run{Plan: plan("later")})
			got, after := next(a)
			require.Equal(t, wake, got)
			require.Equal(t, 500*time.Millisecond, after)
		})
	})
	t.Run("at once when asked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newInMemory(t, mockserver.Config{OpaqueTokens: true})
			c := m.worker()
			m.Wake()
			got, after := next(c)
			require.Equal(t, wake, got)
			require.Zero(t, after)
		})
	})
	t.Run("at once with a negative debounce", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := newInMemory(t, mockserver.Config{OpaqueTokens: true, WakeDebounce: -1})
			c := m.worker()
			m.enqueue(mockserver.Run{Plan: plan("r1")})
			_, after := next(c)
			require.Zero(t, after)
		})
	})
	t.Run("not to who has left", func(t *testing.T) {
		m := newInMemory(t, mockserver.Config{OpaqueTokens: true})
		c := m.worker()
		c.ok("worker:queue", "phx_leave", `{}`)
		require.Equal(t, "phx_close", c.read().Event)
		m.Wake()
		c.exchange("phoenix", "heartbeat", `{}`)
		require.Empty(t, c.pushes)
		require.Zero(t, m.Stats().Workers)
	})
}
