package mockserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

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
		{name: "YAML", body: "# a comment\nname: x\nsteps:\n  - id: a\n", status: 400, want: `{"error":"the body is not JSON: invalid character '#' looking for beginning of value; it looks like YAML, which phxworker run executes"}`},
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
		{name: "priority of a plan", path: "/run", body: `{"priority":"urgent",` + jobs + `}`, status: 422, want: `{"errors":{"priority":["must be immediate (or 0) or normal (or 1)"]}}`},
		{name: "priority", path: "/run?priority=urgent", body: `{` + jobs + `}`, status: 422, want: `{"errors":{"priority":["must be immediate (or 0) or normal (or 1)"]}}`},
		{name: "known id", body: `{"id":"known",` + jobs + `}`, status: 409, want: `{"errors":{"id":["has already been taken"]}}`},
		{name: "too large", body: `"` + strings.Repeat("x", 33<<20) + `"`, status: 413, want: `{"error":"the body is over 32 MiB"}`},
		{name: "unknown run", method: "GET", path: "/run/nope", status: 404, want: `{"error":"no run \"nope\": it was never posted, or it ended and is forgotten"}`},
		{name: "credential is no JSON", path: "/credentials/c", body: `{`, status: 400, want: `{"error":"the body is not JSON: unexpected end of JSON input"}`},
	}
	m := mocktest.New(t, mockserver.Config{})
	m.Queue(mockserver.Run{Plan: mocktest.Plan("known")})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = "POST"
			}
			if tt.path == "" {
				tt.path = "/run"
			}
			status, body := mocktest.Call(t, m, tt.method, tt.path, tt.body)
			require.Equal(t, tt.status, status, body)
			require.Equal(t, tt.want+"\n", body)
		})
	}
	require.Equal(t, 1, m.Stats().Available, "nothing bad was queued")
}

func TestHTTPRun(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
	c := m.Worker()

	status, body := mocktest.Call(t, m, "POST", "/credentials/c1", `{"user":"shared"}`)
	require.Equal(t, 201, status)
	require.Equal(t, `{"id":"c1"}`+"\n", body)
	status, _ = mocktest.Call(t, m, "PUT", "/dataclips/d1", `{"data":1}`)
	require.Equal(t, 201, status)

	posted := `{"id":"r1", "dataclip_id":"d1", "jobs":[{"id":"a","adaptor":"@openfn/language-common","body":"fn(s => s)"}]}`
	status, body = mocktest.Call(t, m, "POST", "/run?wakeup", posted)
	require.Equal(t, 201, status, body)
	require.Equal(t, `{"id":"r1"}`+"\n", body)
	require.Equal(t, "work-available", c.Read().Event)

	status, body = mocktest.Call(t, m, "POST", "/run?queue=fast_lane&priority=immediate",
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
	for _, r := range c.Claim(`{"demand":2,"worker_name":"w"}`) {
		tokens[r.ID] = r.Token
		require.Equal(t, "ok", c.Join("run:"+r.ID, `{"token":"`+r.Token+`"}`).Status)
	}
	require.Equal(t, posted, c.OK("run:r1", "fetch:plan", `{}`), "byte for byte")
	require.Equal(t, `{"data":1}`, c.OK("run:r1", "fetch:dataclip", `{}`))
	require.Equal(t, `{"user":"shared"}`, c.OK("run:r1", "fetch:credential", `{"id":"c1"}`))
	require.Equal(t, `{"own":true}`, c.OK("run:"+made.ID, "fetch:dataclip", `{}`))
	require.Equal(t, `{"user":"own"}`, c.OK("run:"+made.ID, "fetch:credential", `{"id":"c1"}`))
	var planned map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(c.OK("run:"+made.ID, "fetch:plan", `{}`)), &planned))
	require.Contains(t, planned, "dataclip_id")
	require.NotContains(t, planned, "dataclip")
	require.NotContains(t, planned, "credentials")

	c.OK("run:r1", "run:complete", `{"reason":"fail","error_type":"JobError","error_message":"no"}`)
	status, body = mocktest.Call(t, m, "GET", "/run/r1", "")
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

	status, body = mocktest.Call(t, m, "GET", "/stats", "")
	require.Equal(t, 200, status)
	var stats mockserver.Stats
	require.NoError(t, json.Unmarshal([]byte(body), &stats))
	require.Equal(t, 1, stats.Sockets)
	require.Equal(t, 1, stats.Workers)
	require.Equal(t, 1, stats.Claimed)
	require.EqualValues(t, 2, stats.Enqueued)
	require.EqualValues(t, 1, stats.Ended["failed"])
}

// Whoever asks at the door, or for what is not there, is told what is.
func TestTheRoutesAreListed(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{})
	type list struct {
		Error  string
		Routes []struct{ Route, Does string }
	}
	ask := func(method, path string) (status int, got list) {
		status, body := mocktest.Call(t, m, method, path, "")
		require.NoError(t, json.Unmarshal([]byte(body), &got), body)
		return status, got
	}
	status, front := ask("GET", "/")
	require.Equal(t, 200, status)
	require.NotEmpty(t, front.Routes)
	for _, r := range front.Routes {
		require.NotEmpty(t, r.Does, r.Route)
		if r.Route == "GET /events" {
			continue // it ends with its client: TestWhoFollowsTheEventsSeesThemAll
		}
		method, path, _ := strings.Cut(strings.ReplaceAll(r.Route, "{id}", "x"), " ")
		_, body := mocktest.Call(t, m, method, path, "")
		require.NotContains(t, body, "there is no "+method, "a route that is listed is there")
	}
	for _, unknown := range []string{"GET /nope/websocket", "DELETE /run/known", "GET /run", "POST /"} {
		method, path, _ := strings.Cut(unknown, " ")
		status, got := ask(method, path)
		require.Equal(t, 404, status, unknown)
		require.Equal(t, "there is no "+unknown+"; these are the routes", got.Error)
		require.Equal(t, front.Routes, got.Routes)
	}
}

// Guards against a page that is open in a developer's browser: it queued runs, whose
// code the worker beside the server executed, and had the server fail.
func TestNoWebPageUsesTheServer(t *testing.T) {
	server := mockserver.NewTest(t, mocktest.Config(mockserver.Config{}))
	_, port, _ := strings.Cut(strings.TrimPrefix(server.HTTPURL(), "http://"), ":")
	tests := []struct {
		name, host, header, value string
		want                      int // to POST /run; a page of another origin can read nothing in any case
	}{
		{name: "a program", want: 201},
		{name: "a program, by the name localhost", host: "localhost:" + port, want: 201},
		{name: "a program, by a container's name", host: "lightning:" + port, want: 201},
		{name: "a page that the server has sent", header: "Sec-Fetch-Site", value: "same-origin", want: 201},
		{name: "a page elsewhere", header: "Origin", value: "https://a.example", want: 403},
		{name: "a page elsewhere, as browsers tell it", header: "Sec-Fetch-Site", value: "cross-site", want: 403},
		{name: "a page of another port", header: "Origin", value: "http://127.0.0.1:3000", want: 403},
		{name: "a page that has its name lead here", host: "rebound.example:" + port, want: 403},
		{name: "the same, with a name like an address", host: "127.0.0.1.example", want: 403},
	}
	transport := &http.Transport{DisableKeepAlives: true}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(method, path, body string) int {
				request, err := http.NewRequestWithContext(t.Context(), method, server.HTTPURL()+path, strings.NewReader(body))
				require.NoError(t, err)
				if tt.host != "" {
					request.Host = tt.host
				}
				if tt.header != "" {
					request.Header.Set(tt.header, tt.value)
				}
				response, err := transport.RoundTrip(request)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				require.Empty(t, response.Header.Get("Access-Control-Allow-Origin"))
				return response.StatusCode
			}
			before := server.Stats().Available
			require.Equal(t, tt.want, ask("POST", "/run", `{"jobs":[]}`))
			require.Equal(t, before+map[int]int{201: 1, 403: 0}[tt.want], server.Stats().Available)
			require.Equal(t, tt.want, ask("POST", "/faults", `{"event":"claim","action":"withhold"}`))
			if tt.want == 403 {
				require.Equal(t, 403, ask("DELETE", "/faults", ""))
				require.Equal(t, 403, ask("POST", "/drain", ""))
			}
			if tt.host != "" {
				require.Equal(t, map[int]int{201: 200, 403: 403}[tt.want], ask("GET", "/stats", ""))
			}
		})
	}
}
