package phxworker

import (
	"runtime/debug"
	"time"

	"github.com/phxworker/phxworker/runner"
)

// settle tells everybody that a run is over.
func (s *starter) settle(this *underway, outcome runner.Outcome) {
	if s.work.Err() != nil && cutShort(outcome) {
		s.stopped.Add(1)
	}
	result := RunResult{
		RunID: this.ID, Group: this.group, Reason: outcome.Reason, Type: outcome.Type, Message: outcome.Message,
		Claimed: this.Claimed, Started: s.end(this), Ended: time.Now(), Err: outcome.Err,
		Settled: outcome.Settled,
	}
	s.tally.add(result)
	kind := EventCompleted
	switch {
	case outcome.Settled.GivenBack():
		kind = EventGivenBack
	case outcome.Err != nil:
		kind = EventGivenUp
	}
	if outcome.Settled == runner.Undelivered || outcome.Err == nil && !outcome.Settled.GivenBack() {
		s.budget.count(outcome.Err)
	}
	s.feed.publish(Event{Kind: kind, RunID: this.ID, Group: this.group, Result: &result})
	s.after(result)
}

// cutShort tells a run that was stopped from one whose end was only being reported
// when work ended.
func cutShort(outcome runner.Outcome) bool {
	return outcome.Err != nil || outcome.Stopped
}

// after calls the hook of the configuration. A slot does not fall with it.
func (s *starter) after(result RunResult) {
	if s.afterRun == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("panic in AfterRun", "run_id", result.RunID, "group", result.Group, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	s.afterRun(result)
}
