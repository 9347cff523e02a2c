package page

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

// Guards against a line that the page does not show: of OpenFn's runtime, and below more lines of log than it shows.
func TestTheLineOfAnErrorIsMarked(t *testing.T) {
	events := [][2]string{{"step:start", `{"step_id":"1","job_id":"a"}`}}
	for i := range maxLines + 1 {
		events = append(events, [2]string{"run:log", fmt.Sprintf(`{"step_id":"1","source":"JOB","message":["%d"]}`, i)})
	}
	events = append(events,
		[2]string{"run:log", `{"step_id":"1","source":"R/T","level":"error","message":["TypeError: no\n    at vm:module(0):2:1"]}`},
		[2]string{"step:complete", `{"step_id":"1","job_id":"a","reason":"fail","error_type":"RuntimeError","error_message":"TypeError: no"}`},
	)
	var record mockserver.RunRecord
	record.Plan = json.RawMessage(`{"jobs":[{"id":"a","body":"\nget('/nowhere')"}]}`)
	for _, e := range events {
		record.Events = append(record.Events, mockserver.Event{Event: e[0], Payload: json.RawMessage(e[1]), Status: "ok"})
	}
	require.Equal(t, []codeLine{{Number: 1}, {Number: 2, Text: "get('/nowhere')", Wrong: true}}, tell(record, time.Now()).Steps[0].Code)
}
