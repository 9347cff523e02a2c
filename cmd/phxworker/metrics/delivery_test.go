package metrics

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver/fault"
)

func TestEventsThatAreNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, quiet, phxworker.Config{})
		h.fail(fault.Rule{Action: fault.Delay, Event: "run:complete", Delay: 20 * time.Second})
		h.enqueue("manual", "ok-1")
		h.begin()
		h.expect(map[string]float64{`phxworker_events_unacknowledged`: 1})
		settle(time.Minute)
		h.expect(map[string]float64{
			`phxworker_events_unacknowledged`:                         0,
			`phxworker_event_acknowledgement_seconds_sum`:             20,
			`phxworker_event_acknowledgement_seconds_bucket{le="60"}`: h.scrape().samples[`phxworker_event_acknowledgement_seconds_count`],
			`phxworker_events_resent_total`:                           0,
		})
		require.Equal(t, "success", h.state("ok-1"))

		h.fail(fault.Rule{Action: fault.Drop, When: fault.After, Event: "run:complete"})
		h.enqueue("manual", "ok-2")
		settle(time.Minute)
		h.expect(map[string]float64{`phxworker_events_resent_total`: 1, `phxworker_runs_total*`: 2, `phxworker_runs_undelivered_total`: 0})
	})
}

func TestLinesThatAreNotSentAsTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, quiet, phxworker.Config{})
		h.enqueue("manual", "shouts-1")
		h.begin()
		h.expect(map[string]float64{`phxworker_log_lines_shortened_total`: 1, `phxworker_events_undelivered_total{event="run:log"}`: 0})
		h.fail(fault.Rule{Action: fault.Refuse, Event: "run:log", Run: "says-1", Count: -1, Response: json.RawMessage(`{"errors":{"message":["no"]}}`)})
		h.enqueue("manual", "says-1")
		settle(time.Minute)
		got := h.scrape().samples
		lines := got[`phxworker_events_undelivered_total{event="run:log"}`]
		require.Positive(t, lines)
		require.InDelta(t, 1, got[`phxworker_log_lines_shortened_total`], 0, "the notes were refused as well, so that none stands for its line")
	})
}

func TestRunsThatNobodyIsToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, quiet, phxworker.Config{})
		h.fail(fault.Rule{Action: fault.Refuse, Event: fault.Join, Run: "ok-1", Response: json.RawMessage(`{"reason":"unauthorized"}`), Count: -1})
		h.enqueue("manual", "ok-1")
		h.begin()
		settle(time.Minute)
		h.expect(map[string]float64{`phxworker_runs_undelivered_total`: 1, `phxworker_runs_total{reason="exception"}`: 1, `phxworker_runs_refused_total` + manual: 0})
	})
}
