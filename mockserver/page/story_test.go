package page

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// A fault that strikes every line of a job that logs a lot makes no document of hundreds of megabytes, three times a second.
func TestWhatComesWithoutEndIsCut(t *testing.T) {
	const many = 20_000
	now := time.Unix(1_795_168_192, 0)
	var record mockserver.RunRecord
	record.EnqueuedAt = now
	for range many {
		record.Events = append(record.Events, mockserver.Event{At: now, Event: "run:log", Status: "error", Response: []byte(`"no"`)})
		record.Faults = append(record.Faults, fault.Strike{At: now, Event: "run:log", Action: fault.Refuse})
	}
	s := tell(record, now)
	require.Len(t, s.Refused, maxLines+1)
	require.Contains(t, s.Refused[maxLines].Problem, "GET /run/ID has all")
	require.Len(t, s.Moments, 1+maxLines+1)
	require.Equal(t, fmt.Sprintf("faults struck %d times more: GET /run/ID has all", many-maxLines), s.Moments[1+maxLines].Text)
}

// Guards against a line that is marked because a job's own words sound like an engine's, and against one that is not because
// the job has logged more than is shown.
func TestTheLineOfAnErrorIsMarked(t *testing.T) {
	var record mockserver.RunRecord
	record.Plan = json.RawMessage(`{"jobs":[{"id":"a","body":"\nget('/nowhere')"}]}`)
	send := func(event, payload string) {
		record.Events = append(record.Events, mockserver.Event{Event: event, Status: "ok", Payload: json.RawMessage(payload)})
	}
	end := func() *step {
		send("step:complete", `{"step_id":"1","job_id":"a","reason":"fail","error_type":"AdaptorError","error_message":"404"}`)
		return tell(record, time.Now()).Steps[0]
	}
	send("step:start", `{"step_id":"1","job_id":"a"}`)
	for range maxLines + 1 {
		send("run:log", `{"step_id":"1","source":"JOB","message":["    at line 1, column 1"]}`)
	}
	require.Nil(t, end().Code)
	record.Events = record.Events[:len(record.Events)-1]
	send("run:log", `{"step_id":"1","source":"R/T","message":["Error reported by \"get()\" operation line 2:"]}`)
	require.Equal(t, []codeLine{{Number: 1}, {Number: 2, Text: "get('/nowhere')", Wrong: true}}, end().Code)
}
