package runtest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

// Renamed returns a run of a plan whose id is "known", under a new one.
func Renamed(plan json.RawMessage) mockserver.Run {
	return mockserver.Run{Plan: bytes.Replace(plan, []byte(`"known"`), []byte(`"`+NewID()+`"`), 1)}
}

// Steps returns the jobs that were executed, in order, with a space between them.
func Steps(t testing.TB, record mockserver.RunRecord) string {
	t.Helper()
	var ids []string
	for _, step := range events(t, record, "step:start") {
		ids = append(ids, step.JobID)
	}
	return strings.Join(ids, " ")
}

// RequireBalance requires that the run was completed once, after all of its steps, and each of these once.
func RequireBalance(t testing.TB, record mockserver.RunRecord) {
	t.Helper()
	open := make(map[string]bool)
	for _, step := range events(t, record, "step:start") {
		require.False(t, open[step.StepID], "begun twice")
		open[step.StepID] = true
	}
	for _, step := range events(t, record, "step:complete") {
		require.True(t, open[step.StepID], "completed and not begun, or twice")
		delete(open, step.StepID)
	}
	require.Empty(t, open, "not completed")
	require.Len(t, events(t, record, "run:complete"), 1)
	require.Equal(t, "run:complete", record.Events[len(record.Events)-1].Event)
}

type stepEvent struct {
	JobID  string `json:"job_id"`
	StepID string `json:"step_id"`
}

func events(t testing.TB, record mockserver.RunRecord, name string) []stepEvent {
	t.Helper()
	var found []stepEvent
	for _, e := range record.Events {
		if e.Event == name {
			var step stepEvent
			require.NoError(t, json.Unmarshal(e.Payload, &step))
			found = append(found, step)
		}
	}
	return found
}
