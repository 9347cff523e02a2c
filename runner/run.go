package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner/delivery"
	"github.com/phxworker/phxworker/runner/terms"
)

// Run is one claimed run as its engine sees it: what to execute, and where to report. Its methods may be called
// concurrently; each call happens before the server sees the next one's event. They block while the outbox is full,
// until the run's context ends.
type Run struct {
	ID   string
	Plan *Plan
	// Input is the JSON of the run's input dataclip, nil when it has none.
	Input json.RawMessage
	// Limits are the worker's, overridden by the plan's. The runner applies
	// those on time and on payloads; memory and log level are the engine's.
	Limits Limits
	// Attempt is which attempt at the run this is, from 1 on; 0 when the server does not tell. A
	// run that was postponed, or returned before it was tried, comes again with the number that it had.
	Attempt int
	// Versions are what run:start tells the server; they are set once the engine has prepared the run.
	Versions Versions

	credentials map[string]json.RawMessage // by job id
	plans       *semaphore.Weighted        // the memory for large plans, which all runs share
	held        int64                      // of it, by this run
	outbox      *delivery.Outbox
	topic       *channel.Topic // joined
	lease       *terms.Lease
	log         *slog.Logger
	given       claim.Run // as the server gave it
	host        Host
	count       func(func(s *Stats))    // changes the runner's numbers
	able        func()                  // tells that the engine executes the run
	cancelWork  context.CancelCauseFunc // ends the engine's work
	returned    *Failure                // set by the runner: the one for which the run was returned
	// noticing is held by who hands a notice over: one at a time.
	noticing chan struct{}

	mu       sync.Mutex
	steps    int             // that were started
	executed map[string]bool // the jobs whose steps these are
	open     []*Step         // started and not completed, oldest first
	leafs    leafs           // completed
	phase    Phase
	since    time.Time // when the phase began
	// started is when the phase Executing did.
	started time.Time
	// notices takes those of the server while the phase is Executing; nil for nobody.
	notices Notifiable
}

// limit sets the limits of the run, for the engine and for what is told of it.
func (r *Run) limit(l Limits) {
	r.Limits = l
	r.outbox.Limit(delivery.Limits{PayloadMB: l.PayloadMB, LogPayloadMB: l.LogPayloadMB, WithholdDataclips: l.WithholdDataclips})
}

// Credential returns the JSON of the job's credential, nil when it has none.
func (r *Run) Credential(jobID string) json.RawMessage { return r.credentials[jobID] }

// Token returns what the server gave with the run, and what opens its topic. It is
// a secret of the run: Lightning's collections API, for one, takes it.
func (r *Run) Token() string { return r.given.Token }

// Log sends a line that belongs to no step.
func (r *Run) Log(line Line) { r.outbox.Log(line, nil) }

// Print sends its arguments, with spaces between them as [fmt.Println] puts them, as a line of level info.
func (r *Run) Print(args ...any) {
	r.Log(TextLine("info", "JOB", strings.TrimSuffix(fmt.Sprintln(args...), "\n")))
}

// StartStep reports that the job begins to execute. Its input is what the step from came to, or the run's own input
// when from is nil. The same job may be started more than once, as it is where two branches of a workflow join. A run
// that starts more than [MaxSteps] is ended.
func (r *Run) StartStep(jobID string, from *Step) *Step {
	var before *delivery.Step
	if from != nil {
		before = from.told
	}
	step := &Step{run: r, jobID: jobID, told: delivery.NewStep(jobID, before, r.Plan.DataclipID)}
	r.mu.Lock()
	allowed := r.steps < MaxSteps
	if allowed {
		r.open = append(r.open, step)
		r.steps++
		if r.executed == nil {
			r.executed = make(map[string]bool)
		}
		r.executed[jobID] = true
	}
	r.mu.Unlock()
	if !allowed {
		r.cancelWork(r.Plan.StepLimit(MaxSteps, "steps"))
		return step
	}
	r.able()
	r.outbox.StartStep(step.told)
	return step
}

// closeOpen completes, with the failure that ended the run, the steps that the engine left open.
func (r *Run) closeOpen(failure *Failure) {
	r.mu.Lock()
	open := r.open
	r.open = nil
	r.mu.Unlock()
	for _, step := range open {
		r.outbox.CompleteStep(step.told, StepResult{Reason: failure.Reason, ErrorType: failure.Type, ErrorMessage: failure.Message}, time.Time{})
	}
}

// completed moves a step out of the open ones, and counts it if it is a leaf: one that others come after does not,
// for they have the chance to handle its failure; see [leafs]. It reports false when the step was not among the open ones: it had
// been completed before.
func (r *Run) completed(step *Step, result StepResult) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.open, step)
	if i < 0 {
		return false
	}
	r.open = slices.Delete(r.open, i, i+1)
	if result.Leaf {
		r.leafs.add(step, result)
	}
	return true
}

// verdict returns the failure of a leaf that the run ends with, nil if there is none.
func (r *Run) verdict() *Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leafs.worst(r.Plan, r.executed)
}

// Step is one execution of a job. See [Run] for what its methods share.
type Step struct {
	run   *Run
	told  *delivery.Step // what the server is told of it
	jobID string
}

// JobID returns the id of the job that the step executes.
func (s *Step) JobID() string { return s.jobID }

// Log sends a line that belongs to the step.
func (s *Step) Log(line Line) { s.run.outbox.Log(line, s.told) }

// Complete reports how the step ended. Only the first call counts.
func (s *Step) Complete(result StepResult) {
	result.Reason = s.run.reason(result.Reason, Success)
	if s.run.completed(s, result) {
		s.run.outbox.CompleteStep(s.told, result, time.Now())
	}
}

// What engines report; see the types of package delivery.
type (
	// Line is one line of a run's log; see [delivery.Line].
	Line = delivery.Line
	// StepResult is how a step ended; see [delivery.StepResult].
	StepResult = delivery.StepResult
	// Memory is what a step used; see [delivery.Memory].
	Memory = delivery.Memory
)

// TextLine returns a line of one string.
func TextLine(level, source, text string) Line { return delivery.TextLine(level, source, text) }
