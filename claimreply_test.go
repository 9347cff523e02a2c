package phxworker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
)

// claimed reads the reply to a claim that asked for one run.
func claimed(t *testing.T, log *bytes.Buffer, response string) []claim.Run {
	t.Helper()
	runs, err := ReadClaimReply(slog.New(slog.NewTextHandler(log, nil)), []byte(response))
	require.NoError(t, err)
	return runs
}

// Guards against a reply that takes thirty times its size in memory, and a million runs that
// wait for one slot.
func TestAClaimTakesNoMoreRunsThanAWorkerCanHold(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of text, which the race detector reads slowly")
	}
	t.Run("more than were asked for", func(t *testing.T) {
		var log bytes.Buffer
		var all []string
		for n := range 1500 {
			all = append(all, fmt.Sprintf(`{"id":"r%d","token":"t"}`, n))
		}
		runs := claimed(t, &log, `{"runs":[`+strings.Join(all, ",")+`]}`)
		require.Len(t, runs, 1000)
		require.Equal(t, "r999", runs[999].ID)
		require.Equal(t, 1, strings.Count(log.String(), "\n"))
		require.Contains(t, log.String(), `level=ERROR msg="the server gave many more runs than were asked for; those after the first are lost" demand=1 first=1000`)
	})
	t.Run("no runs", func(t *testing.T) {
		var log bytes.Buffer
		response := `{"runs":[` + strings.Repeat("7,", 8<<20) + `7]}`
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.Empty(t, claimed(t, &log, response))
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(3*len(response)))
		require.Less(t, log.Len(), 1000)
	})
	t.Run("long words", func(t *testing.T) {
		var log bytes.Buffer
		long := strings.Repeat("x", 100_000)
		runs := claimed(t, &log, `{"runs":[{"id":"`+long+`","token":"t"},{"id":"a","token":"`+long+`"},{"id":"b","token":"t"}]}`)
		require.Equal(t, []claim.Run{{ID: "b", Token: "t"}}, runs)
		require.Less(t, log.Len(), 1000)
		require.Contains(t, log.String(), "its id has 100000 bytes, and its token 1")
	})
}

// FuzzClaimReply looks for replies that panic, or that lose a run which could be read. The
// plain way to read one is the measure.
func FuzzClaimReply(f *testing.F) {
	for _, response := range []string{
		`{"runs":[]}`, `{}`, `null`, `[]`, `{"runs":null}`, `{"runs":{}}`, `{"runs":"r1"}`, `{"runs":[{"id":"r1","token":"t"}]}`,
		`{"runs":[{"id":7},{"id":"r1"},null,7,"r",[],{"ID":"r2","Token":"t"}]}`, `{"runs":[{"id":"r1"}],"runs":[]}`, `{"RUNS":[{"id":"a","id":"b"}]}`, `{"runs":[{"id":"a"}`,
	} {
		f.Add([]byte(response))
	}
	f.Fuzz(func(t *testing.T, response []byte) {
		var plain struct{ Runs []json.RawMessage }
		failed := json.Unmarshal(response, &plain)
		runs, err := ReadClaimReply(slog.New(slog.DiscardHandler), response)
		require.Equal(t, failed == nil, err == nil, "%v, %v", failed, err)
		var want []string
		for _, data := range plain.Runs {
			var run claim.Run
			if failed == nil && json.Unmarshal(data, &run) == nil && len(run.ID) <= MaxRunID {
				want = append(want, run.ID)
			}
		}
		var got []string
		for _, run := range runs {
			got = append(got, run.ID)
		}
		require.Equal(t, want, got)
	})
}
