package metrics

import (
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/runner"
)

// runs is about runs, from the claim to the end.
var runs = []family{
	byKey("phxworker_runs_total", "Runs that are over, by how they ended.", "reason",
		[]phxworker.Reason{runner.Success, runner.Fail, runner.Crash, runner.Cancel, runner.Kill, runner.Exception},
		func(now *snapshot) map[phxworker.Reason]int { return now.Ended }),
	counter("phxworker_runs_undelivered_total", "Runs that are over without the server having been told.", func(now *snapshot) float64 {
		return float64(now.Undelivered)
	}),
	gauge("phxworker_oldest_run_seconds", "Time since the claim of the oldest run under way; 0 when there is none.", func(now *snapshot) float64 {
		return oldest(now).Seconds()
	}),
	durations("phxworker_claim_to_start_seconds", "From a claim's answer to the begin of the run.", func(now *snapshot) phxworker.Histogram {
		return now.ClaimToStart
	}),
	durations("phxworker_wake_to_start_seconds", "From a wake-up to the begin of the run that answered it.", func(now *snapshot) phxworker.Histogram {
		return now.WakeToStart
	}),
	durations("phxworker_run_seconds", "From a run's claim to its end.", func(now *snapshot) phxworker.Histogram {
		return now.RunSeconds
	}),
}

func oldest(now *snapshot) time.Duration {
	var age time.Duration
	for i := range now.Runs {
		age = max(age, now.at.Sub(now.Runs[i].Claimed))
	}
	return age
}
