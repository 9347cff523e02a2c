package metrics

import "github.com/phxworker/phxworker"

var eventNames = []string{"run:start", "step:start", "run:log", "step:complete", "run:complete"}

// events is about what runs tell the server.
var events = []family{
	gauge("phxworker_events_unacknowledged", "Events of runs that the server has not answered yet.", func(now *snapshot) float64 {
		n := 0
		for i := range now.Runs {
			n += now.Runs[i].Unacknowledged
		}
		return float64(n)
	}),
	durations("phxworker_event_acknowledgement_seconds", "From the push of an event to the server's answer.", func(now *snapshot) phxworker.Histogram {
		return now.Delivery.Acknowledged
	}),
	counter("phxworker_events_resent_total", "Events sent once more, after a lost join.", func(now *snapshot) float64 {
		return float64(now.Delivery.Resent)
	}),
	counter("phxworker_log_lines_shortened_total", "Lines of runs' logs for which a note was sent, as they were too large or refused.", func(now *snapshot) float64 {
		return float64(now.Delivery.LogsShortened)
	}),
	byKey("phxworker_events_undelivered_total", "Events of runs that the server does not have, or may not have, and will not get from the worker.", "event", eventNames, func(now *snapshot) map[string]uint64 {
		return now.Delivery.Undelivered
	}),
}
