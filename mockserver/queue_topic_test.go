package mockserver_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
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
			m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
			for _, q := range all {
				m.Queue(mockserver.Run{Plan: mocktest.Plan(q.id), Queue: q.queue, Priority: q.priority})
			}
			c := m.Worker()
			require.Equal(t, tt.want, c.ClaimIDs(tt.demand, tt.queues))
			require.Equal(t, len(all)-len(tt.want), m.Stats().Available)
		})
	}
}

// A claimed run stays claimed, also if its worker is gone before the reply.
func TestClaimIsNotRolledBack(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
	m.Queue(mockserver.Run{Plan: mocktest.Plan("r1")})
	first := m.Worker()
	require.Equal(t, []string{"r1"}, first.ClaimIDs(1, `["*"]`))
	require.NoError(t, first.Conn.Close())
	require.Empty(t, m.Worker().ClaimIDs(1, `["*"]`))
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
			m := mocktest.New(t, mockserver.Config{})
			c := m.Worker()
			got := c.Exchange("worker:queue", "claim", payload)
			require.Equal(t, frame.Frame{JoinRef: `"1"`, Ref: `"1"`, Topic: "worker:queue", Event: "phx_error", Payload: []byte(`{}`)}, got)
			got = c.Exchange("worker:queue", "claim", `{"demand":1,"worker_name":"w"}`)
			require.Equal(t, `error {"reason":"unmatched topic"}`, got.Status+" "+string(got.Payload))
			require.Empty(t, got.JoinRef)
			require.Equal(t, "ok", c.Join("worker:queue", `{}`).Status, "the socket has survived")
		})
	}
}

func TestLostRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{
			JanitorInterval: time.Second, RunTimeout: 90 * time.Second, IdleTimeout: time.Hour,
			WakeDebounce: time.Hour, // nobody reads meanwhile
		})
		for _, id := range []string{"claimed", "started", "waiting"} {
			m.Queue(mockserver.Run{Plan: mocktest.Plan(id)})
		}
		c := m.Worker()
		runs := c.Claim(`{"demand":2,"worker_name":null}`)
		require.Equal(t, "ok", c.Join("run:started", `{"token":"`+runs[1].Token+`"}`).Status)
		time.Sleep(30 * time.Second)
		c.OK("run:started", "run:start", `{}`)

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
		got := c.Exchange("run:started", "run:complete", `{"reason":"success"}`)
		require.Equal(t, `{"state":["already in completed state"]}`, string(got.Payload))
		require.JSONEq(t, `{"reason":"unauthorized"}`, string(c.Join("run:started", `{"token":"`+runs[1].Token+`"}`).Payload))
		require.Equal(t, []string{"waiting"}, c.ClaimIDs(9, `["*"]`))
		stats := m.Stats()
		require.EqualValues(t, 2, stats.Ended["lost"])
		require.Equal(t, 1, stats.Claimed)
	})
}

func TestWorkAvailable(t *testing.T) {
	// next returns what came and after how long.
	next := func(c *mocktest.Client) (string, time.Duration) {
		start := time.Now()
		_, data, err := c.Conn.ReadMessage()
		require.NoError(c.T, err)
		return string(data), time.Since(start)
	}
	const wake = `[null,null,"worker:queue","work-available",{}]`
	t.Run("once, half a second after the first of many", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
			a, b := m.Worker(), m.Worker()
			for i := range 20 {
				m.Queue(mockserver.Run{Plan: mocktest.Plan(fmt.Sprint("r", i))})
				time.Sleep(10 * time.Millisecond)
			}
			for _, c := range []*mocktest.Client{a, b} {
				got, _ := next(c)
				require.Equal(t, wake, got)
			}
			time.Sleep(2 * time.Second)
			require.EqualValues(t, 1, m.Stats().Wakes)
			m.Queue(mockserver.Run{Plan: mocktest.Plan("later")})
			got, after := next(a)
			require.Equal(t, wake, got)
			require.Equal(t, 500*time.Millisecond, after)
		})
	})
	t.Run("at once when asked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
			c := m.Worker()
			m.Wake()
			got, after := next(c)
			require.Equal(t, wake, got)
			require.Zero(t, after)
		})
	})
	t.Run("at once with a negative debounce", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, WakeDebounce: -1})
			c := m.Worker()
			m.Queue(mockserver.Run{Plan: mocktest.Plan("r1")})
			_, after := next(c)
			require.Zero(t, after)
		})
	})
	t.Run("not to who has left", func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
		c := m.Worker()
		c.OK("worker:queue", "phx_leave", `{}`)
		require.Equal(t, "phx_close", c.Read().Event)
		m.Wake()
		c.Exchange("phoenix", "heartbeat", `{}`)
		require.Empty(t, c.Pushes)
		require.Zero(t, m.Stats().Workers)
	})
}

func TestWorkerTokens(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{Secret: "a secret"})
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"iss": "urn:openfn:worker", "iat": 1, "worker_id": "w"}).
		SignedString(jwt.UnsafeAllowNoneSignatureType)
	require.NoError(t, err)
	tests := []struct {
		name   string
		token  string
		status int
	}{
		{name: "good", token: mocktest.WorkerToken(t, "a secret", nil), status: 101},
		{name: "long expired", token: mocktest.WorkerToken(t, "a secret", map[string]any{"exp": 1}), status: 101},
		{name: "valid since", token: mocktest.WorkerToken(t, "a secret", map[string]any{"nbf": 1}), status: 101},
		{name: "not valid yet", token: mocktest.WorkerToken(t, "a secret", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), status: 401},
		{name: "another secret", token: mocktest.WorkerToken(t, "another", nil), status: 401},
		{name: "another issuer", token: mocktest.WorkerToken(t, "a secret", map[string]any{"iss": "me"}), status: 401},
		{name: "no issuer", token: mocktest.WorkerToken(t, "a secret", map[string]any{"iss": nil}), status: 401},
		{name: "no iat", token: mocktest.WorkerToken(t, "a secret", map[string]any{"iat": nil}), status: 401},
		{name: "no worker_id", token: mocktest.WorkerToken(t, "a secret", map[string]any{"worker_id": nil}), status: 401},
		{name: "alg none", token: none, status: 401},
		{name: "garbage", token: "x.y.z", status: 401},
		{name: "none", token: "", status: 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := websocket.Dialer{NetDialContext: m.Listener.DialContext}
			conn, resp, err := d.Dial("ws://mock/worker/websocket?vsn=2.0.0&api_version=1.2&token="+tt.token, nil)
			require.Equal(t, tt.status, resp.StatusCode)
			require.NoError(t, resp.Body.Close())
			if tt.status == 101 {
				require.NoError(t, err)
				require.NoError(t, conn.Close())
			}
		})
	}
}

func TestRunTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{})
		m.Queue(mockserver.Run{Plan: []byte(`{"id":"r1","jobs":[],"options":{"run_timeout_ms":60000}}`)})
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r2")})
		c := m.Worker()
		claimed := time.Now()
		runs := c.Claim(`{"demand":2,"worker_name":null}`)
		token := runs[0].Token

		der, err := base64.StdEncoding.DecodeString(m.PublicKey())
		require.NoError(t, err)
		block, _ := pem.Decode(der)
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		require.NoError(t, err)
		claims := jwt.MapClaims{}
		_, err = jwt.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return key, nil }, jwt.WithValidMethods([]string{"RS256"}))
		require.NoError(t, err)
		require.Equal(t, jwt.MapClaims{
			"iss": "Lightning", "id": "r1", "sub": "run:r1",
			"nbf": float64(claimed.Unix()), "exp": float64(claimed.Add(70 * time.Second).Unix()),
		}, claims)

		refused := func(topic, payload, reason string) {
			t.Helper()
			got := c.Join(topic, payload)
			require.Equal(t, "error", got.Status)
			require.JSONEq(t, fmt.Sprintf(`{"reason":%q}`, reason), string(got.Payload))
		}
		refused("run:unknown", `{"token":"x"}`, "not_found")
		refused("run:r1", `{}`, "unauthorized")
		refused("run:r1", `{"token":"x"}`, "unauthorized")
		refused("run:r2", `{"token":"`+token+`"}`, "unauthorized")
		refused("run:r1", `[]`, "unauthorized")

		require.Equal(t, "ok", c.Join("run:r1", `{"token":"`+token+`"}`).Status)
		time.Sleep(70*time.Second - time.Millisecond) // longer than the idle time-out
		c = m.Connect()
		require.Equal(t, "ok", c.Join("run:r1", `{"token":"`+token+`"}`).Status)
		time.Sleep(time.Millisecond)
		refused("run:r1", `{"token":"`+token+`"}`, "unauthorized")
	})
}
