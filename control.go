package phxworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

var (
	// ErrNotRunning says that a worker can do this only while [Worker.Run] runs.
	ErrNotRunning = errors.New("the worker is not running")
	// ErrDraining says that this would have no effect, since the worker claims no more.
	ErrDraining = errors.New("the worker is draining: it claims no more")
	// ErrReporting says that a run can no longer be cancelled.
	ErrReporting = runner.ErrReporting
	// ErrNoRun says that a run is not under way in this worker.
	ErrNoRun = runner.ErrNoRun
)

// GroupError says that a worker has no such group.
type GroupError struct {
	Group string   // the group asked for
	Known []string // the groups that the worker has
}

func (e *GroupError) Error() string {
	return fmt.Sprintf("there is no slot group %q; the groups are %s", e.Group, strings.Join(e.Known, ", "))
}

// Drain makes the worker claim no more and let its runs finish, as the end of the context of
// [Worker.Run] does; then Run returns. It does not wait, and may be called at any time.
func (w *Worker) Drain() { w.drain.raise() }

// Pause keeps a group from claiming, or every group if the name is empty. Runs go on. The error is
// [ErrNotRunning], [ErrDraining] or a [*GroupError].
func (w *Worker) Pause(group string) error {
	return w.eachLoop(group, func(name string, loop *claim.Loop) {
		loop.Pause()
		w.log.Info("paused: no more claims until it is resumed", "group", name)
		w.feed.publish(Event{Kind: EventPaused, Group: name})
	})
}

// Resume ends the pause of a group, or of every group if the name is empty. The errors are those of
// [Worker.Pause].
func (w *Worker) Resume(group string) error {
	return w.eachLoop(group, func(name string, loop *claim.Loop) {
		loop.Resume()
		w.log.Info("resumed", "group", name)
		w.feed.publish(Event{Kind: EventResumed, Group: name})
	})
}

func (w *Worker) eachLoop(group string, do func(name string, loop *claim.Loop)) error {
	s, err := w.claiming()
	if err != nil {
		return err
	}
	err = w.groupError(group)
	for i, loop := range s.loops {
		if name := w.cfg.Groups[i].Name; group == "" || group == name {
			do(name, loop)
			err = nil
		}
	}
	return err
}

// claiming returns the parts of a worker that still claims.
func (w *Worker) claiming() (*shift, error) {
	switch s := w.current(); {
	case s == nil:
		return nil, ErrNotRunning
	case s.intake.Err() != nil:
		return nil, ErrDraining
	default:
		return s, nil
	}
}

func (w *Worker) groupError(group string) error {
	err := &GroupError{Group: group}
	for _, g := range w.cfg.Groups {
		err.Known = append(err.Known, g.Name)
	}
	return err
}

// Resize changes the number of slots of a group, to 1 at least and [slots.MaxGroupSlots] at most. With
// fewer slots than runs, the runs go on, and the group claims nothing until enough of them have ended.
// The server learns of the new capacity at the next join of the queue; it only shows it to people. The
// change ends with the worker. The error is a [*GroupError], or says which numbers are allowed.
func (w *Worker) Resize(group string, n int) error {
	if n < 1 || n > slots.MaxGroupSlots {
		return fmt.Errorf("a group cannot have %d slots: give from 1 to %d; to stop its claims, pause it", n, slots.MaxGroupSlots)
	}
	i := slices.IndexFunc(w.cfg.Groups, func(g slots.Group) bool { return g.Name == group })
	if i < 0 {
		return w.groupError(group)
	}
	w.log.Info("resized", "group", group, "slots", n)
	w.pools[i].Resize(n)
	return nil
}

// Cancel cancels one run and does not wait for its end. The error is [ErrNotRunning], [ErrNoRun] or
// [ErrReporting].
func (w *Worker) Cancel(runID string) error {
	s := w.current()
	if s == nil {
		return ErrNotRunning
	}
	return s.starter.runner.Cancel(runID, runner.Cancellation("The run was cancelled by the operator of the worker"))
}

// Notify hands a notice, any JSON, to the execution of one run and waits until that has taken it or ctx
// ends. The error is [ErrNotRunning], [ErrNoRun], [runner.ErrNoNotices] if the execution is not a
// [Notifiable], or the cause of the end of ctx.
func (w *Worker) Notify(ctx context.Context, runID string, notice json.RawMessage) error {
	s := w.current()
	if s == nil {
		return ErrNotRunning
	}
	return s.starter.runner.Notify(ctx, runID, notice)
}

// Claim claims once for each group that has an open slot, paused groups too, one after the other until
// a claim brings a run. It reports whether one did. Without a connection it waits for one, unless all
// groups are full. A claim that was not sent when ctx ends is never sent. A worker with
// [claim.Options.Manual] claims only so. The error is [ErrNotRunning], [ErrDraining], [ErrUnable], or
// the cause of the end of ctx.
func (w *Worker) Claim(ctx context.Context) (bool, error) {
	s, err := w.claiming()
	if err != nil {
		return false, err
	}
	if err := s.turnstile.err(); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.intake, func() { cancel(ErrDraining) })()
	for _, loop := range s.loops {
		switch brought, err := loop.Claim(ctx); {
		case brought:
			return true, nil
		case s.intake.Err() != nil: // why it brought none
			return false, ErrDraining
		case err != nil:
			return false, err
		}
	}
	return false, nil
}
