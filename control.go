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
	// ErrNotRunning says that a worker was asked for something that it can only
	// do between the beginning and the end of [Worker.Run].
	ErrNotRunning = errors.New("the worker is not running")
	// ErrDraining says that a worker claims no more, so that what it was asked for
	// would have no effect.
	ErrDraining = errors.New("the worker is draining: it claims no more")
	// ErrReporting says that a run can no longer be cancelled.
	ErrReporting = runner.ErrReporting
	// ErrNoRun says that a run is not under way in this worker.
	ErrNoRun = runner.ErrNoRun
)

// GroupError is a group that a worker does not have.
type GroupError struct {
	Group string   // the one asked for
	Known []string // those that there are
}

func (e *GroupError) Error() string {
	return fmt.Sprintf("there is no slot group %q; the groups are %s", e.Group, strings.Join(e.Known, ", "))
}

// Drain makes the worker stop in good order, as the end of the context of
// [Worker.Run] does: no more claims, the runs finish, Run returns. It does not
// wait, and may be called at any time.
func (w *Worker) Drain() { w.drain.raise() }

// Pause keeps a group from claiming, every group if the name is empty; their runs
// go on. The error is [ErrNotRunning], [ErrDraining] or a [*GroupError].
func (w *Worker) Pause(group string) error {
	return w.eachLoop(group, func(name string, loop *claim.Loop) {
		loop.Pause()
		w.log.Info("paused: no more claims until it is resumed", "group", name)
		w.feed.publish(Event{Kind: EventPaused, Group: name})
	})
}

// Resume ends a pause of a group, of every group if the name is empty. The error
// is that of [Worker.Pause].
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
	err = w.unknown(group)
	for i, loop := range s.loops {
		if name := w.cfg.Groups[i].Name; group == "" || group == name {
			do(name, loop)
			err = nil
		}
	}
	return err
}

// claiming returns what runs, if it still claims.
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

func (w *Worker) unknown(group string) error {
	unknown := &GroupError{Group: group}
	for _, g := range w.cfg.Groups {
		unknown.Known = append(unknown.Known, g.Name)
	}
	return unknown
}

// Resize changes how many runs a group may hold at once, from 1 to [slots.MaxGroupSlots]. With fewer
// slots than runs, the runs go on and nothing is claimed until enough of them have
// ended. The server learns of the worker's new capacity when the queue is joined
// the next time; it only shows it to people. The change ends with the worker. The
// error is a [*GroupError], or says that there cannot be as many.
func (w *Worker) Resize(group string, n int) error {
	if n < 1 || n > slots.MaxGroupSlots {
		return fmt.Errorf("a group cannot have %d slots: give from 1 to %d; to stop its claims, pause it", n, slots.MaxGroupSlots)
	}
	i := slices.IndexFunc(w.cfg.Groups, func(g slots.Group) bool { return g.Name == group })
	if i < 0 {
		return w.unknown(group)
	}
	w.log.Info("resized", "group", group, "slots", n)
	w.pools[i].Resize(n)
	return nil
}

// Cancel stops one run, which is reported as cancelled, and does not wait for
// that. The error is [ErrNotRunning], [ErrNoRun] or [ErrReporting].
func (w *Worker) Cancel(runID string) error {
	s := w.current()
	if s == nil {
		return ErrNotRunning
	}
	return s.starter.runner.Cancel(runID, runner.Cancellation("The run was cancelled by the operator of the worker"))
}

// Notify hands a notice, any JSON, to the engine of one run, if that is a
// [Notifiable], and waits until it was taken, or ctx ends. The error is
// [ErrNotRunning], [ErrNoRun], [runner.ErrNoNotices], or the cause of the end of ctx.
func (w *Worker) Notify(ctx context.Context, runID string, notice json.RawMessage) error {
	s := w.current()
	if s == nil {
		return ErrNotRunning
	}
	return s.starter.runner.Notify(ctx, runID, notice)
}

// Claim makes one claim now for each group with an open slot in turn, also for those that are
// paused, until one brings a run, and reports whether one did. Without a connection it
// waits for one, unless all groups are full; what was not sent when ctx ends never will be. It is what a worker
// with [claim.Options.Manual] lives by. The error is [ErrNotRunning], [ErrDraining],
// [ErrUnable], or the cause of the end of ctx.
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
