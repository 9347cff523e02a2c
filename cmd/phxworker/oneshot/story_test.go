package oneshot

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

// As OpenFn's runtime writes it of an error that an adaptor has made.
func TestTheLineOfTheOperationThatAnAdaptorFailedIn(t *testing.T) {
	var out bytes.Buffer
	story := &Story{Out: &out, Code: map[string]string{"a": "fn(s => s);\n\n  get('/nowhere');"}}
	for _, e := range [][2]string{
		{"step:start", `{"step_id":"1","job_id":"a"}`},
		{"run:log", `{"step_id":"1","source":"R/T","level":"error","message":["Error reported by \"get()\" operation line 3:"]}`},
		{"step:complete", `{"step_id":"1","job_id":"a","reason":"fail","error_type":"AdaptorError","error_message":"404"}`},
	} {
		story.Show(mockserver.Event{Event: e[0], Payload: json.RawMessage(e[1]), Status: "ok"})
	}
	require.Equal(t, "✗ a\n  AdaptorError: 404\n  3 |   get('/nowhere');\n    |   ^\n", out.String())
}

// As OpenFn's runtime writes it of an error of the job's own.
func TestTheLineOfAnErrorInNode(t *testing.T) {
	var out bytes.Buffer
	story := &Story{Out: &out, Code: map[string]string{"a": "fn(s => s);\nfn(state => state.a.b);"}}
	for _, e := range [][2]string{
		{"step:start", `{"step_id":"1","job_id":"a"}`},
		{"run:log", `{"step_id":"1","source":"R/T","level":"error","message":["TypeError: no\n    at vm:module(0):2:20\n    @openfn/language-common@3.3.4/index.js:7672:57"]}`},
		{"step:complete", `{"step_id":"1","job_id":"a","reason":"fail","error_type":"RuntimeError","error_message":"TypeError: no"}`},
	} {
		story.Show(mockserver.Event{Event: e[0], Payload: json.RawMessage(e[1]), Status: "ok"})
	}
	require.Equal(t, "✗ a\n  RuntimeError: TypeError: no\n  2 | fn(state => state.a.b);\n    |                     ^\n", out.String())
}
