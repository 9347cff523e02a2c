package runner

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The events of two steps have the order and the keys of those that OpenFn's
// worker sent for the same workflow.
func TestEventsAreThoseOfTheRecordedWorker(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		run := planOf(`,"dataclip_id":"d"`)
		run.Dataclip = json.RawMessage(`{"data":{}}`)
		outcome := w.run(Config{Engine: Func(twoSteps)}, run)
		require.NoError(t, outcome.Err)

		record, _ := w.server.Inspect("r1")
		var got []recordedEvent
		for _, e := range record.Events {
			require.Equal(t, "ok", e.Status, "%s: %s", e.Event, e.Response)
			if strings.HasPrefix(e.Event, "run:") || strings.HasPrefix(e.Event, "step:") {
				got = append(got, recordedEvent{e.Event, keysOf(t, e.Payload)})
			}
		}
		isLog := func(e recordedEvent) bool { return e.name == "run:log" }
		want := recording(t)
		require.Contains(t, want, got[slices.IndexFunc(got, isLog)])
		require.Equal(t, slices.DeleteFunc(want, isLog), slices.DeleteFunc(got, isLog))
	})
}

type recordedEvent struct {
	name string
	keys []string
}

func keysOf(t *testing.T, payload []byte) []string {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(payload, &fields))
	delete(fields, "dataclip_size_mb") // newer than the recording
	keys := make([]string, 0, len(fields))
	for key := range fields {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func recording(t *testing.T) (events []recordedEvent) {
	t.Helper()
	file, err := os.Open("testdata/ws-worker-1.25.0-real-engine.ndjson")
	require.NoError(t, err)
	defer file.Close()
	scan := bufio.NewScanner(file)
	for scan.Scan() {
		var line struct{ Dir, Frame string }
		require.NoError(t, json.Unmarshal(scan.Bytes(), &line))
		var parts [5]json.RawMessage
		if line.Dir != "c2s" || json.Unmarshal([]byte(line.Frame), &parts) != nil {
			continue
		}
		var event string
		require.NoError(t, json.Unmarshal(parts[3], &event))
		if strings.HasPrefix(event, "run:") || strings.HasPrefix(event, "step:") {
			events = append(events, recordedEvent{event, keysOf(t, parts[4])})
		}
	}
	require.NoError(t, scan.Err())
	return events
}
