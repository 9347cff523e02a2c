package phxworker

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/slots"
)

// Guards against an input that is fetched again and again, and takes the connection of all
// other runs with it each time.
func TestWhatIsTooLargeToBeReadEndsItsRunOnly(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	tests := []struct {
		name, errorType, fetch, plan string
		dataclip                     string
	}{
		{name: "input", errorType: "DataClipError", fetch: "fetch:dataclip", plan: `{"id":"a","dataclip_id":"d","jobs":[{"id":"j"}]}`, dataclip: `"` + long + `"`},
		{name: "plan", errorType: "PlanError", fetch: "fetch:plan", plan: `{"id":"a","name":"` + long + `","jobs":[{"id":"j"}]}`},
		{name: "credential", errorType: "CredentialLoadError", fetch: "fetch:credential", plan: `{"id":"a","jobs":[{"id":"j","credential":"c"}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, mockserver.Config{})
				h.enqueue("manual", "other")
				worker, _ := h.hire(Config{Groups: slots.MustParse("manual:2"), Transport: Transport{ReadLimit: 100_000}})
				settle(time.Second)
				require.Equal(t, "started", h.state("other"))

				run := mockserver.Run{Plan: json.RawMessage(tt.plan), Queue: "manual", Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"a":"` + long + `"}`)}}
				if tt.dataclip != "" {
					run.Dataclip = json.RawMessage(tt.dataclip)
				}
				h.put(run)
				settle(30 * time.Second)
				record, _ := h.server.Inspect("a")
				require.Equal(t, "exception", record.Reason)
				require.Equal(t, tt.errorType, record.ErrorType)
				require.Regexp(t, `\[`+tt.fetch+`\] the server's answer has more than the 100000 bytes that this worker reads`, record.ErrorMessage)
				fetched := 0
				for _, f := range h.sent(tt.fetch) {
					if f.topic == "run:a" {
						fetched++
					}
				}
				require.Equal(t, 1, fetched)

				h.gate.release("other")
				settle(time.Second)
				require.Equal(t, "success", h.state("other"))
				require.Equal(t, 1, worker.Stats().Connection.Connections, "nobody else noticed")
			})
		})
	}
}

// Guards against a claim that is made again at once, or a worker that leaves the queue over it.
func TestAClaimWhoseAnswerIsTooLargeToBeReadIsAFailedClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		mock := &lightningMock{runs: `{"id":"r1","token":"` + strings.Repeat("x", 100_000) + `"}`}
		worker, executed := against(t, mock, Config{Transport: Transport{ReadLimit: 100_000}, Logger: slog.New(slog.NewTextHandler(&log, nil))}, time.Second)
		require.Zero(t, executed)
		stats := worker.Stats()
		require.Equal(t, 1, stats.Connection.Connections)
		require.EqualValues(t, 1, stats.Groups[0].Claims.Failed)
		require.Contains(t, log.String(), "a claim was answered with more than is read; a run that the server may have given away with it is lost")
		require.Contains(t, log.String(), "more than 100000 bytes, the limit")
	})
}

// What became of such an event nobody knows: it is sent again, but not on the same join, and then given up
// alone. Guards against a run whose end is lost to the answer to one line.
func TestAnEventWhoseAnswerIsTooLargeIsGivenUpAlone(t *testing.T) {
	for _, tt := range []struct {
		event       string
		undelivered int // runs
	}{{event: "run:start"}, {event: "run:log"}, {event: "run:complete", undelivered: 1}} {
		t.Run(tt.event, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mock := &lightningMock{runs: `{"id":"r1","token":"x.y.z"}`, answers: map[string]string{tt.event: `{"status":"ok","response":"` + strings.Repeat("x", 100_000) + `"}`}}
				worker, executed := against(t, mock, Config{Transport: Transport{ReadLimit: 100_000}}, time.Minute)
				require.EqualValues(t, 1, executed)
				stats := worker.Stats()
				require.Equal(t, 1, stats.Connection.Connections)
				require.Equal(t, tt.undelivered, stats.Undelivered)
				require.Equal(t, map[string]uint64{tt.event: 1}, stats.Delivery.Undelivered)
				close(mock.events)
				var events []string // without what is fetched, and the first join
				for e := range mock.events {
					if event, _, _ := strings.Cut(e, " "); strings.HasPrefix(event, "run:") || event == "phx_join" {
						events = append(events, event)
					}
				}
				seen := strings.Join(events, " ")
				require.Contains(t, seen, strings.Join([]string{tt.event, tt.event, tt.event}, " phx_join "))
				require.Equal(t, 3, strings.Count(seen, tt.event))
				require.Contains(t, seen, "run:complete")
			})
		})
	}
}

// What is large is an input: it has the whole limit, and nothing else has.
func TestOnlyAnInputIsReadUpToTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, mockserver.Config{})
		long := strings.Repeat("x", 3<<20)
		h.put(mockserver.Run{Plan: json.RawMessage(`{"id":"a","dataclip_id":"d","jobs":[{"id":"j"}]}`), Queue: "manual", Dataclip: json.RawMessage(`"` + long + `"`)})
		h.put(mockserver.Run{
			Plan: json.RawMessage(`{"id":"b","jobs":[{"id":"j","credential":"c"}]}`), Queue: "manual", Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"a":"` + long + `"}`)},
		})
		h.hire(Config{Groups: slots.MustParse("manual:2"), Transport: Transport{ReadLimit: 4 << 20}})
		settle(30 * time.Second)
		require.Equal(t, "started", h.state("a"))
		record, _ := h.server.Inspect("b")
		require.Contains(t, record.ErrorMessage, "more than the 2097152 bytes that this worker reads")
		require.NotContains(t, record.ErrorMessage, "--read-limit")
	})
}
