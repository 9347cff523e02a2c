package metrics

import "github.com/phxworker/phxworker"

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
	counter("phxworker_log_lines_dropped_total", "Lines of runs' logs that the server took in no form, or may not have got.", func(now *snapshot) float64 {
		return float64(now.Delivery.Undelivered["run:log"])
	}),
}
