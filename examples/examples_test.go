package examples_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/examples"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

func TestAll(t *testing.T) {
	all, err := examples.All()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(all), 12)

	queues, reasons := make(map[string]int), make(map[string]int)
	for _, e := range all {
		queues[e.Queue]++
		reasons[e.Expect.Reason]++
	}
	for _, queue := range []string{"manual", "fast_lane", "default"} {
		require.Positive(t, queues[queue], "no example in the queue %s", queue)
	}
	for _, reason := range []string{"success", "fail", "crash", "kill", "exception"} {
		require.Positive(t, reasons[reason], "no example that ends as %s", reason)
	}
}

// What the README promises: curl --data @examples/hello.json, again and again.
func TestFilesCanBePostedToTheMockServerAsTheyAre(t *testing.T) {
	server := mockserver.NewTest(t, mocktest.Config(mockserver.Config{}))
	files, err := filepath.Glob("*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range append(files, files[0]) {
		body, err := os.ReadFile(file)
		require.NoError(t, err)
		res, err := http.Post(server.HTTPURL()+"/run", "application/json", bytes.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusCreated, res.StatusCode, file)
	}
}

func TestParse(t *testing.T) {
	e, err := examples.Parse("dir/one.json", []byte(`{
		"about": "a", "queue": "manual", "expect": {"reason": "fail", "error_type": "JobError"},
		"dataclip": {"x": 1}, "credentials": {"c": {"k": 2}},
		"jobs": [{"id": "a", "credential_id": "c"}], "options": {"run_timeout_ms": 5}
	}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"one","jobs":[{"id":"a","credential_id":"c"}],"options":{"run_timeout_ms":5}}`, string(e.Plan))
	require.JSONEq(t, `{"x":1}`, string(e.Dataclip))
	require.JSONEq(t, `{"k":2}`, string(e.Credentials["c"]))
	e.Plan, e.Dataclip, e.Credentials = nil, nil, nil
	require.Equal(t, examples.Example{Name: "one", About: "a", Queue: "manual", Expect: examples.Expectation{Reason: "fail", ErrorType: "JobError"}}, e)
}

func TestParseNamesFileAndField(t *testing.T) {
	tests := []struct {
		name, in, want string
	}{
		{"no JSON", `{"about": `, `example bad.json is not JSON: unexpected end of JSON input, after 10 bytes`},
		{"no object", `[]`, `example bad.json is not a JSON object`},
		{"no text", `{"about": 1}`, `example bad.json: "about" must be a text`},
		{"no about", `{}`, `example bad.json: "about" is missing: say what there is to see`},
		{"empty queue", `{"about": "a", "queue": ""}`, `example bad.json: "queue" is empty: name a queue, or leave the field out`},
		{"wrong reason", `{"about": "a", "expect": {"reason": "fine"}}`, `example bad.json: "expect.reason" must be success, fail, crash, cancel, kill or exception`},
		{"no error type", `{"about": "a", "expect": {"reason": "fail"}}`, `example bad.json: "expect.error_type" must be there unless the reason is success`},
		{"credentials", `{"about": "a", "credentials": [1]}`, `example bad.json: "credentials" must be an object of bodies by id`},
		{"spelling", `{"about": "a", "expect": {"reason": "success"}, "quue": "manual"}`, `example bad.json: "quue" is no field of an example or of a plan`},
		{"an id", `{"about": "a", "expect": {"reason": "success"}, "id": "x"}`, `example bad.json: "id" must not be there: the run is named after the file`},
		{"no jobs", `{"about": "a", "expect": {"reason": "success"}}`, `example bad.json: "jobs" is missing: a plan needs at least one job`},
		{"job without id", `{"about": "a", "expect": {"reason": "success"}, "jobs": [{}]}`, `example bad.json is not a plan: jobs[0] of the plan has no "id"`},
		{"job of a wrong type", `{"about": "a", "expect": {"reason": "success"}, "jobs": [{"id": 1}]}`, `example bad.json is not a plan: the plan cannot be read: jobs.id must not be of type number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := examples.Load(fstest.MapFS{"bad.json": {Data: []byte(tt.in)}})
			var wrong *examples.FileError
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, "bad.json", wrong.File)
			require.EqualError(t, err, tt.want)
		})
	}
}
