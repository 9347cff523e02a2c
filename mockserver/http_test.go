package mockserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

// call does one request and returns the status and the body.
func call(t *testing.T, s http.Handler, method, path, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func TestHTTPErrors(t *testing.T) {
	const jobs = `"jobs":[{"id":"a"}]`
	tests := []struct {
		name         string
		method, path string // default POST /run
		body         string
		status       int
		want         string
	}{
		{name: "empty", body: ``, status: 400, want: `{"error":"the body is empty: send JSON"}`},
		{name: "no JSON", body: `{"jobs":`, status: 400, want: `{"error":"the body is not JSON: unexpected end of JSON input"}`},
		{name: "two values", body: `{} {}`, status: 400, want: `{"error":"the body is not JSON: invalid character '{' after top-level value"}`},
		{name: "unknown parameter", path: "/run?que=manual", body: `{` + jobs + `}`, status: 400, want: `{"error":"there is no parameter \"que\"; there are queue, priority, wakeup, wait"}`},
		{name: "no UTF-8", body: "\"\xff\"", status: 400, want: `{"error":"the body is not UTF-8"}`},
		{name: "no object", body: `[]`, status: 422, want: `{"errors":{"plan":["must be a JSON object"]}}`},
		{name: "null", body: `null`, status: 422, want: `{"errors":{"plan":["must be a JSON object"]}}`},
		{name: "no jobs", body: `{"id":"r"}`, status: 422, want: `{"errors":{"jobs":["can't be blank"]}}`},
		{name: "jobs no list", body: `{"jobs":{}}`, status: 422, want: `{"errors":{"jobs":["must be a list of objects"]}}`},
		{name: "job no object", body: `{"jobs":[7]}`, status: 422, want: `{"errors":{"jobs":["must be a list of objects"]}}`},
		{name: "job without id", body: `{"jobs":[{"id":"a"},{}]}`, status: 422, want: `{"errors":{"jobs[1].id":["can't be blank"]}}`},
		{name: "job twice", body: `{"jobs":[{"id":"a"},{"id":"a"}]}`, status: 422, want: `{"errors":{"jobs[1].id":["has already been taken"]}}`},
		{name: "edges no list", body: `{` + jobs + `,"edges":1}`, status: 422, want: `{"errors":{"edges":["must be a list of objects"]}}`},
		{name: "id no string", body: `{"id":7,` + jobs + `}`, status: 422, want: `{"errors":{"id":["must be a string"]}}`},
		{name: "id empty", body: `{"id":"",` + jobs + `}`, status: 422, want: `{"errors":{"id":["can't be blank"]}}`},
		{name: "id too long", body: `{"id":"` + strings.Repeat("x", 201) + `",` + jobs + `}`, status: 422, want: `{"errors":{"id":["must be at most 200 bytes long"]}}`},
		{name: "dataclip_id", body: `{"dataclip_id":{},` + jobs + `}`, status: 422, want: `{"errors":{"dataclip_id":["must be a string"]}}`},
		{name: "options", body: `{"options":[],` + jobs + `}`, status: 422, want: `{"errors":{"options":["is invalid"]}}`},
		{name: "timeout", body: `{"options":{"run_timeout_ms":"1s"},` + jobs + `}`, status: 422, want: `{"errors":{"options.run_timeout_ms":["is invalid"]}}`},
		{
			name: "timeout too long", body: `{"options":{"run_timeout_ms":1e300},` + jobs + `}`, status: 422,
			want: `{"errors":{"options.run_timeout_ms":["must be at least 1 and at most a year"]}}`,
		},
		{name: "credentials", body: `{"credentials":[],` + jobs + `}`, status: 422, want: `{"errors":{"credentials":["must be an object of bodies by id"]}}`},
		{name: "priority", path: "/run?priority=urgent", body: `{` + jobs + `}`, status: 422, want: `{"errors":{"priority":["must be immediate (or 0) or normal (or 1)"]}}`},
		{name: "known id", body: `{"id":"known",` + jobs + `}`, status: 409, want: `{"errors":{"id":["has already been taken"]}}`},
		{name: "too large", body: `"` + strings.Repeat("x", 33<<20) + `"`, status: 413, want: `{"error":"the body is over 32 MiB"}`},
		{name: "unknown run", method: "GET", path: "/run/nope", status: 404, want: `{"error":"no run \"nope\": it was never posted, or it ended and is forgotten"}`},
		{name: "credential is no JSON", path: "/credentials/c", body: `{`, status: 400, want: `{"error":"the body is not JSON: unexpected end of JSON input"}`},
	}
	m := newInMemory(t, mockserver.Config{})
	require.NoError(t, m.Enqueue(mockserver.Run{Plan: plan("known")}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = "POST"
			}
			if tt.path == "" {
				tt.path = "/run"
			}
			status, body := call(t, m, tt.method, tt.path, tt.body)
			require.Equal(t, tt.status, status, body)
			require.Equal(t, tt.want+"\n", body)
		})
	}
	require.Equal(t, 1, m.Stats().Available, "nothing bad was queued")
}

func TestHTTPRun(t *testing.T) {
	m := newInMemory(t, mockserver.Config{OpaqueTokens: true})
	c := m.worker()

	status, body := call(t, m, "POST", "/credentials/c1", `{"user":"shared"}`)
	require.Equal(t, 201, status)
	require.Equal(t, `{"id":"c1"}`+"\n", body)
	status, _ = call(t, m, "PUT", "/dataclips/d1", `{"data":1}`)
	require.Equal(t, 201, status)

	posted := `{"id":"r1", "dataclip_id":"d1", "jobs":[{"id":"a","adaptor":"@openfn/language-common","body":"fn(s => s)"}]}`
	status, body = call(t, m, "POST", "/run?wakeup", posted)
	require.Equal(t, 201, status, body)
	require.Equal(t, `{"id":"r1"}`+"\n", body)
	require.Equal(t, "work-available", c.read().Event)

	status, body = call(t, m, "POST", "/run?queue=fast_lane&priority=immediate",
		`{"jobs":[],"dataclip":{"own":true},"credentials":{"c1":{"user":"own"}}}`)
	require.Equal(t, 201, status, body)
	var made struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	require.Len(t, made.ID, 36)
	record, ok := m.Inspect(made.ID)
	require.True(t, ok)
	require.Equal(t, "fast_lane", record.Queue)
	require.Equal(t, mockserver.Immediate, record.Priority)

	tokens := make(map[string]string)
	for _, r := range c.claim(`{"demand":2,"worker_name":"w"}`) {
		tokens[r.ID] = r.Token
		require.Equal(t, "ok", c.join("run:"+r.ID, `{"token":"`+r.Token+`"}`).Status)
	}
	require.Equal(t, posted, c.ok("run:r1", "fetch:plan", `{}`), "byte for byte")
	require.Equal(t, `{"data":1}`, c.ok("run:r1", "fetch:dataclip", `{}`))
	require.Equal(t, `{"user":"shared"}`, c.ok("run:r1", "fetch:credential", `{"id":"c1"}`))
	require.Equal(t, `{"own":true}`, c.ok("run:"+made.ID, "fetch:dataclip", `{}`))
	require.Equal(t, `{"user":"own"}`, c.ok("run:"+made.ID, "fetch:credential", `{"id":"c1"}`))
	var planned map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(c.ok("run:"+made.ID, "fetch:plan", `{}`)), &planned))
	require.Contains(t, planned, "dataclip_id")
	require.NotContains(t, planned, "dataclip")
	require.NotContains(t, planned, "credentials")

	c.ok("run:r1", "run:complete", `{"reason":"fail","error_type":"JobError","error_message":"no"}`)
	status, body = call(t, m, "GET", "/run/r1", "")
	require.Equal(t, 200, status)
	require.NotContains(t, body, tokens["r1"])
	var got struct {
		ID, State, Reason, Queue, Priority string
		ErrorType                          string `json:"error_type"`
		WorkerName                         string `json:"worker_name"`
		FinishedAt                         string `json:"finished_at"`
		Events                             []struct {
			Event, Status string
			Payload       json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &got))
	require.Equal(t, []string{"r1", "failed", "fail", "default", "normal", "JobError", "w"},
		[]string{got.ID, got.State, got.Reason, got.Queue, got.Priority, got.ErrorType, got.WorkerName})
	require.NotEmpty(t, got.FinishedAt)
	require.Len(t, got.Events, 4)
	require.Equal(t, "run:complete", got.Events[3].Event)

	status, body = call(t, m, "GET", "/stats", "")
	require.Equal(t, 200, status)
	var stats mockserver.Stats
	require.NoError(t, json.Unmarshal([]byte(body), &stats))
	require.Equal(t, 1, stats.Sockets)
	require.Equal(t, 1, stats.Workers)
	require.Equal(t, 1, stats.Claimed)
	require.EqualValues(t, 2, stats.Enqueued)
	require.EqualValues(t, 1, stats.Ended["failed"])
}
