package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// script is what one run is to do, and so what the server is to hear of it.
type script struct {
	id, queue   string
	steps       []stepScript
	ending      ending
	input       bool // it has an input dataclip
	credentials int
	nul         string // U+0000, which the server cannot store, or nothing
}

type stepScript struct {
	lines  int
	pause  time.Duration // before each line, and before the end
	reason runner.Reason
}

// ending is how a run ends after its steps.
type ending int

const (
	returns ending = iota // with the reason of its last step
	refuses               // with an error of its own
	panics                // within its last step
	hangs                 // within its last step, until its time is over
	endings
)

func newScript(rng *rand.Rand, id, queue string) *script {
	s := &script{id: id, queue: queue, input: rng.IntN(2) == 0, credentials: rng.IntN(3)}
	if rng.IntN(4) == 0 {
		s.nul = "\x00"
	}
	for range 1 + rng.IntN(3) {
		step := stepScript{lines: rng.IntN(4), reason: runner.Success}
		if rng.IntN(2) == 0 {
			step.pause = time.Duration(rng.IntN(8000)) * time.Millisecond
		}
		s.steps = append(s.steps, step)
	}
	if rng.IntN(4) == 0 {
		s.steps[len(s.steps)-1].reason = []runner.Reason{runner.Fail, runner.Crash}[rng.IntN(2)]
	}
	if rng.IntN(5) == 0 {
		s.ending = ending(rng.IntN(int(endings)))
	}
	return s
}

func job(i int) string { return fmt.Sprintf("j%d", i) }

// enqueued is the run as the server gets it.
func (s *script) enqueued() mockserver.Run {
	jobs := make([]map[string]any, len(s.steps))
	for i := range jobs {
		jobs[i] = map[string]any{"id": job(i), "body": "x"}
		if i < s.credentials {
			jobs[i]["credential_id"] = fmt.Sprint("credential-", i)
		}
	}
	plan, _ := json.Marshal(map[string]any{"id": s.id, "jobs": jobs})
	run := mockserver.Run{Plan: plan, Queue: s.queue}
	if s.input {
		run.Dataclip = json.RawMessage(`{"for":"` + s.id + `"}`)
	}
	return run
}

// reason is the one that the run must end with when nothing of the server's keeps it from
// being executed.
func (s *script) reason() runner.Reason {
	switch s.ending {
	case refuses:
		return runner.Exception
	case panics:
		return runner.Crash
	case hangs:
		return runner.Kill
	default:
		return s.steps[len(s.steps)-1].reason
	}
}

// execute reports the steps and lines of the script.
func (s *script) execute(ctx context.Context, run *runner.Run) (any, error) {
	var last *runner.Step
	line := 0
	for i, step := range s.steps {
		now := run.StartStep(job(i), last)
		for range step.lines {
			sleep(ctx, step.pause)
			now.Log(runner.TextLine("info", "JOB", lineLabel(line)+s.nul))
			line++
		}
		sleep(ctx, step.pause)
		leaf := i == len(s.steps)-1
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case leaf && s.ending == panics:
			panic("as the script says")
		case leaf && s.ending == hangs:
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		now.Complete(runner.StepResult{Reason: step.reason, State: s.state(fmt.Sprint(i)), Leaf: leaf})
		last = now
	}
	if s.ending == refuses {
		return nil, &runner.Failure{Reason: runner.Exception, Type: "Refused", Message: "as the script says"}
	}
	return s.state(s.id), nil
}

func (s *script) state(of string) json.RawMessage {
	state, _ := json.Marshal(map[string]string{"of" + s.nul: of + s.nul})
	return state
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// labels are the events of the script, in the order in which the server must
// hear of them.
func (s *script) labels() []string { return append(s.body(), ended(s.reason())...) }

// body are the labels up to the end.
func (s *script) body() []string {
	labels := []string{"run:start"}
	line := 0
	for i, step := range s.steps {
		labels = append(labels, "step:start "+job(i))
		for range step.lines {
			labels = append(labels, "run:log "+lineLabel(line))
			line++
		}
		labels = append(labels, "step:complete "+job(i))
	}
	return labels
}

// ended are the last events of every run.
func ended(reason runner.Reason) []string {
	labels := []string{"run:log status"}
	if reason != runner.Success {
		labels = append(labels, "run:log why")
	}
	return append(labels, "run:complete "+string(reason))
}

func lineLabel(n int) string { return fmt.Sprintf("line %d", n) }
