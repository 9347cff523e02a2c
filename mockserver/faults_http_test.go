package mockserver_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

func TestHTTPFaults(t *testing.T) {
	m := newInMemory(t, mockserver.Config{OpaqueTokens: true, WakeDebounce: -1, FaultSeed: 7})
	c, _ := m.claimed(mockserver.Run{Plan: plan("r1")})

	status, body := call(t, m, "POST", "/faults", `{"event":"run:start","run":"r1","action":"refuse","response":"no"}`)
	require.Equal(t, `201 {"ids":[1]}`+"\n", statusAnd(status, body))
	status, body = call(t, m, "POST", "/faults", ` [{"event":"claim","action":"drop"}, {"event":"heartbeat","action":"withhold","count":-1}]`)
	require.Equal(t, `201 {"ids":[2,3]}`+"\n", statusAnd(status, body))
	require.Equal(t, "error", c.exchange("run:r1", "run:start", `{}`).Status)

	status, body = call(t, m, "GET", "/faults", "")
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
	status, body = call(t, m, "GET", "/run/r1", "")
	require.Equal(t, 200, status)
	require.Contains(t, body, `"rule":1,"action":"refuse","when":"before","event":"run:start","topic":"run:r1","run":"r1","worker":"mighty-worker","socket":1}`)
	_, body = call(t, m, "GET", "/stats", "")
	require.Contains(t, body, `"faults":{"refuse":1}`)

	status, body = call(t, m, "DELETE", "/faults/2", "")
	require.Equal(t, `200 {"removed":1}`+"\n", statusAnd(status, body))
	status, body = call(t, m, "DELETE", "/faults/2", "")
	require.Equal(t, `404 {"error":"no fault \"2\""}`+"\n", statusAnd(status, body))
	c.claimIDs(1, `["*"]`) // no drop
	status, body = call(t, m, "DELETE", "/faults", "")
	require.Equal(t, `200 {"removed":2}`+"\n", statusAnd(status, body))
	c.heartbeat() // not withheld
	require.Empty(t, m.FaultRules())
	require.Len(t, m.Faults(), 1)

	status, _ = call(t, m, "POST", "/faults", `{"event":"now","action":"close","code":4000}`)
	require.Equal(t, 201, status)
	require.Equal(t, 4000, c.closed())
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
	m := newInMemory(t, mockserver.Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := call(t, m, "POST", "/faults", tt.body)
			require.Equal(t, tt.status, status, body)
			require.Equal(t, tt.want+"\n", body)
		})
	}
	require.Empty(t, m.FaultRules(), "nothing bad was added")
	_, err := mockserver.New(mockserver.Config{Faults: []fault.Rule{{Action: "explode"}}})
	require.ErrorContains(t, err, "bad fault: action must be one of")
}
