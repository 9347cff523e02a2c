package page

import (
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
