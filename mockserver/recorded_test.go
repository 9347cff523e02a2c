package mockserver_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// TestRecordedWorkers sends what OpenFn's ws-worker 1.25.0 sent in whole recorded
// sessions: all of it must be accepted, and be in the run's record. In extended mode
// it gets the same answers, byte for byte.
func TestRecordedWorkers(t *testing.T) {
	for _, name := range []string{"one-run", "two-steps", "real-engine"} {
		answers := make(map[mockserver.Mode][]string)
		for _, mode := range []mockserver.Mode{mockserver.Lightning, mockserver.Extended} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				answers[mode] = replay(t, name, mode)
			})
		}
		require.Equal(t, answers[mockserver.Lightning], answers[mockserver.Extended])
	}
}

// replay sends a recorded session, and returns what it was answered.
func replay(t *testing.T, name string, mode mockserver.Mode) (answers []string) {
	sent, planned := recordedSession(t, "testdata/ws-worker/"+name+".ndjson")
	m := mocktest.New(t, mockserver.Config{Mode: mode, WakeDebounce: -1, OpaqueTokens: true})
	m.AddCredential("c", json.RawMessage(`{"user":"user "}`))
	m.AddDataclip("d", json.RawMessage(`{"data":{}}`))
	m.Queue(mockserver.Run{Plan: planned})

	c := m.Connect()
	var token string
	var events []string
	for _, f := range sent {
		payload := strings.ReplaceAll(string(f.Payload), "x.y.z", token)
		got := c.Exchange(f.Topic, f.Event, payload)
		require.Equal(t, "ok", got.Status, "%s %s: %s", f.Event, payload, got.Payload)
		require.Equal(t, c.Joins[f.Topic], got.JoinRef)
		switch {
		case f.Event == "claim" && token == "":
			var response struct{ Runs []mocktest.ClaimedRun }
			require.NoError(t, json.Unmarshal(got.Payload, &response))
			require.Len(t, response.Runs, 1)
			token = response.Runs[0].Token
		case f.Event == "fetch:plan":
			require.JSONEq(t, string(planned), string(got.Payload))
		case f.Event == "fetch:dataclip":
			require.True(t, got.Binary)
			require.Equal(t, `{"data":{}}`, string(got.Payload))
		case f.Event == "fetch:credential":
			require.Equal(t, `{"user":"user "}`, string(got.Payload))
		}
		if strings.HasPrefix(f.Topic, "run:") && !strings.HasPrefix(f.Event, "phx_") {
			events = append(events, f.Event+" "+payload)
		}
	}

	record, ok := m.Inspect("r1")
	require.True(t, ok)
	require.Equal(t, mockserver.State("success"), record.State)
	require.NotEmpty(t, record.FinalDataclipID)
	var recorded []string
	for _, e := range record.Events {
		recorded = append(recorded, e.Event+" "+string(e.Payload))
	}
	require.Equal(t, events, recorded)
	for _, x := range m.Transcript() {
		if x.Direction == phoenix.ToClient {
			answers = append(answers, logLine.ReplaceAllString(mocktest.WithoutTokens(string(x.Data)), "…"))
		}
	}
	return answers
}

var logLine = regexp.MustCompile(`"log_line_id":"[^"]*"`)

// recordedSession returns the client's frames and the plan it was given.
func recordedSession(t *testing.T, path string) (sent []frame.Frame, planned json.RawMessage) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	fetched := make(map[frame.Ref]bool)
	for scanner.Scan() {
		var line struct{ Dir, Frame string }
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &line))
		if strings.HasPrefix(line.Frame, "#") {
			continue
		}
		f, err := frame.Decode([]byte(line.Frame), false)
		require.NoError(t, err)
		switch {
		case line.Dir == "c2s":
			sent = append(sent, f)
			fetched[f.Ref] = f.Event == "fetch:plan"
		case fetched[f.Ref] && f.IsReply():
			planned = f.Payload
		}
	}
	require.NoError(t, scanner.Err())
	require.NotNil(t, planned)
	return sent, planned
}

// TestRecordedRuns sends the events of some recorded runs, among them outputs and
// final states that are no objects: all must be accepted.
func TestRecordedRuns(t *testing.T) {
	paths, err := filepath.Glob("testdata/runs/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		for _, mode := range []mockserver.Mode{mockserver.Lightning, mockserver.Extended} {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".json")+" "+string(mode), func(t *testing.T) {
				var recorded struct {
					Plan        json.RawMessage
					Dataclips   map[string]json.RawMessage
					Credentials map[string]json.RawMessage
					Expect      struct {
						Events []struct {
							Event   string
							Payload json.RawMessage
						}
						Reason string
					}
				}
				data, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, json.Unmarshal(withIDs(data), &recorded))

				m := mocktest.New(t, mockserver.Config{Mode: mode, OpaqueTokens: true})
				for id, body := range recorded.Dataclips {
					m.AddDataclip(id, body)
				}
				for id, body := range recorded.Credentials {
					m.AddCredential(id, body)
				}
				c, id := m.Claimed(mockserver.Run{Plan: recorded.Plan})
				for _, e := range recorded.Expect.Events {
					c.OK("run:"+id, e.Event, string(e.Payload))
				}
				result, err := m.Wait(mocktest.InTime(t), id)
				require.NoError(t, err)
				require.Equal(t, recorded.Expect.Reason, result.Reason)
			})
		}
	}
}

var placeholder = regexp.MustCompile(`<(step|clip|ts|ms|bytes|thread)(?::(\d+))?>`)

// withIDs puts values in the place of the recording's placeholders.
func withIDs(data []byte) []byte {
	return placeholder.ReplaceAllFunc(data, func(match []byte) []byte {
		m := placeholder.FindSubmatch(match)
		switch string(m[1]) {
		case "step":
			return fmt.Appendf(nil, "00000000-0000-4000-8000-%012s", m[2])
		case "clip":
			return fmt.Appendf(nil, "00000000-0000-4000-9000-%012s", m[2])
		default:
			return []byte("1795168192891559")
		}
	})
}
