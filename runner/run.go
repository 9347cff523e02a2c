package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/claim"
)

// Run is one claimed run as its engine sees it: what to execute, and where to
// report. Its methods may be called concurrently; each call happens before the
// server sees the next one's event. They block while the outbox is full, until
// the run's context ends.
type Run struct {
	ID   string
	Plan *Plan
	// Input is the JSON of the run's input dataclip, nil when it has none.
	Input json.RawMessage
	// Limits are the worker's, overridden by the plan's. The runner applies
	// those on time and on payloads; memory and log level are the engine's.
	Limits Limits
	// Attempt is how often the run was given to a worker, this time included; 0 when
	// the server does not tell.
	Attempt int
	// Versions are what run:start tells the server; they are set once the
	// engine has prepared the run.
	Versions Versions
	// Prepared is the engine's own: what its Prepare keeps for its Execute. It goes with
	// the run, also when that is never executed.
	Prepared any

	credentials map[string]json.RawMessage // by job id
	scrub       *scrubber
	room        planRoom
	outbox      *outbox
	log         *slog.Logger
	given       claim.Run    // as the server gave it
	begin       <-chan error // nil, or what holds the run back
	webhook     webhook      // the sender's own
	// logsAtMostOnce keeps lines from being sent again.
	logsAtMostOnce bool
	// nativeDataclips sends outputs as JSON objects.
	nativeDataclips bool
	tally           *tally                  // the runner's
	able            func()                  // tells that the engine executes the run
	cancelWork      context.CancelCauseFunc // ends the engine's work
	leftOut         atomic.Int64            // lines that found no room
	settled         Settlement              // set by the runner when the run was returned
	why             string                  // it was
	// noticing is held by who hands a notice over: one at a time.
	noticing chan struct{}

	mu    sync.Mutex
	done  <-chan struct{} // closed when the engine's context ends
	steps int             // that were started
	open  []*Step         // started and not completed, oldest first
	leafs []*Step         // completed, with nothing after them
	worst *Step           // of the leafs
	phase Phase
	since time.Time // when the phase began
}

// Credential returns the JSON of the job's credential, nil when it has none.
func (r *Run) Credential(jobID string) json.RawMessage { return r.credentials[jobID] }

// Token returns what the server gave with the run, and what opens its topic. It is
// a secret of the run: Lightning's collections API, for one, takes it.
func (r *Run) Token() string { return r.given.Token }

// Log sends a line that belongs to no step.
func (r *Run) Log(line Line) { r.logLine(line, nil) }

// Print sends its arguments, with spaces between them as [fmt.Println] puts them, as a
// line of level info.
func (r *Run) Print(args ...any) {
	r.Log(TextLine("info", "JOB", strings.TrimSuffix(fmt.Sprintln(args...), "\n")))
}

// StartStep reports that the job begins to execute. Its input is what the step
// from came to, or the run's own input when from is nil. The same job may be
// started more than once, as it is where two branches of a workflow join. A run
// that starts more than [MaxSteps] is ended.
func (r *Run) StartStep(jobID string, from *Step) *Step {
	step := newStep(r, jobID, from)
	r.mu.Lock()
	if r.steps == MaxSteps {
		r.mu.Unlock()
		step.unknown = true
		r.cancelWork(r.Plan.StepLimit(MaxSteps, "steps"))
		return step
	}
	r.open = append(r.open, step)
	r.steps++
	r.mu.Unlock()
	r.able()
	r.report(&stepStart{step: step, at: time.Now()}, 0)
	return step
}

// closeOpen completes, with the failure that ended the run, the steps that the
// engine left open.
func (r *Run) closeOpen(failure *Failure) {
	r.mu.Lock()
	open := r.open
	r.open = nil
	r.mu.Unlock()
	for _, step := range open {
		step.abort(failure)
	}
}

// hasOpenSteps reports whether a step was started and not completed.
func (r *Run) hasOpenSteps() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open) > 0
}

// hasSteps reports whether a step was ever started.
func (r *Run) hasSteps() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps > 0
}

// leafSteps returns the completed steps that nothing came after.
func (r *Run) leafSteps() []*Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*Step(nil), r.leafs...)
}

// completed moves a step out of the open ones. It reports false when it was
// not among them: it had been completed before.
func (r *Run) completed(step *Step, result StepResult) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range r.open {
		if s != step {
			continue
		}
		r.open = append(r.open[:i], r.open[i+1:]...)
		step.result = StepResult{Reason: result.Reason} // the rest is the event's
		if result.Leaf {
			r.leafs = append(r.leafs, step)
			r.keepWorstLocked(step, result)
		}
		return true
	}
	return false
}

// keepWorstLocked keeps the error of a leaf for the verdict of the run, if none before was
// as bad: a run may have many leafs, and errors are as long as a job likes.
func (r *Run) keepWorstLocked(leaf *Step, result StepResult) {
	switch worst := r.worst; {
	case worst != nil && worst.result.Reason.severity() >= result.Reason.severity():
		return
	case worst != nil:
		worst.result = StepResult{Reason: worst.result.Reason}
	}
	r.worst = leaf
	leaf.result.ErrorType, leaf.result.ErrorMessage = result.ErrorType, result.ErrorMessage
}

func (r *Run) setDone(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = ctx.Done()
}

// report hands an event to the outbox. A line that finds no room there by the end of the
// run's time is left out, and counted; all else is taken in any case, for there is little
// of it and the server counts on it.
func (r *Run) report(e event, size int) {
	_, line := e.(*runLog)
	r.mu.Lock()
	done := r.done
	r.mu.Unlock()
	if r.outbox.put(done, e, size) || !line && r.outbox.force(e, size) {
		return
	}
	r.tally.undeliver(e.name(), 1)
	if line {
		r.leftOut.Add(1)
	}
}

func (r *Run) logLine(line Line, step *Step) {
	entry := newRunLog(r, line, step)
	r.report(entry, entry.size())
}

// Line is one line of a run's log.
type Line struct {
	// Level is success, always, info, warn, error or debug.
	Level string
	// Source names who wrote it, in at most 8 characters: JOB for the console
	// of a job, ADA for that of an adaptor, R/T and RTE for the engine.
	Source string
	// Message holds a JSON value for each argument that was logged.
	Message []json.RawMessage
	// Time defaults to now.
	Time time.Time
}

// TextLine returns a line of one string.
func TextLine(level, source, text string) Line {
	message, _ := json.Marshal(text) // a string cannot fail to marshal
	return Line{Level: level, Source: source, Message: []json.RawMessage{message}}
}

// warning is a line by which the worker tells the people who read the run's log of what it
// had to do.
func warning(text string) Line { return TextLine("warn", "R/T", text) }

const maxSource = 8 // what Lightning's log lines have room for

// withDefaults returns a copy of l that Lightning will accept.
func (l Line) withDefaults() Line {
	if l.Time.IsZero() {
		l.Time = time.Now()
	}
	switch l.Level {
	case "success", "always", "info", "warn", "error", "debug":
	default:
		l.Level = "info"
	}
	l.Source = storableText(l.Source)
	if len(l.Source) > maxSource {
		l.Source = strings.ToValidUTF8(l.Source[:maxSource], "")
	}
	return l
}
