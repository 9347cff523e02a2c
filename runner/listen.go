package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
)

// Notifiable is an [Execution] that takes notices: JSON objects that the server sends
// to a run under way, where it and the worker have agreed on the extension notify.
// Notify is called from another goroutine than Execute, one notice at a
// time, and should return soon. It may come a moment before Execute is called, or
// after Close.
type Notifiable interface {
	Execution
	Notify(ctx context.Context, notice json.RawMessage)
}

// listener hears what the server has to say to one run.
type listener struct {
	topic  *channel.Topic
	set    *extension.Set
	run    *Run
	cancel func(cause error) // of the run
	// notices are those that the engine has not taken yet: a cancellation must not
	// have to wait behind them.
	notices chan []byte
}

// maxNotices is how many notices may wait for an engine that is busy.
const maxNotices = 64

// listen returns when ctx ends. What is not known, or was not agreed on, is counted
// and left at that.
func (l *listener) listen(ctx context.Context) {
	l.notices = make(chan []byte, maxNotices)
	ctx, stop := context.WithCancel(ctx)
	var handing sync.WaitGroup
	defer handing.Wait()
	defer stop() // whatever ends the listening
	handing.Go(func() { _ = l.run.survive(func() error { l.handOn(ctx); return nil }) })
	for {
		select {
		case m := <-l.topic.Messages():
			l.hear(m)
		case <-ctx.Done():
			return
		}
	}
}

func (l *listener) hear(m channel.Message) {
	switch {
	case m.Event == "run:cancel" && l.set.Agreed(m.Join, extCancel, nil):
		var said struct{ Message string }
		if json.Unmarshal(m.Payload, &said) != nil || said.Message == "" {
			said.Message = "The run was cancelled by the server"
		}
		l.run.log.Info("the server cancels the run")
		l.cancel(Cancellation(shortened(said.Message)))
	case m.Event == "run:notify" && l.set.Agreed(m.Join, extNotify, nil):
		select {
		case l.notices <- m.Payload:
		default:
			l.run.log.Warn("a notice of the server is left out: the engine has not taken those before it", "waiting", maxNotices)
		}
	default:
		l.run.tally.unknown.Add(1)
		l.run.log.Debug("the server pushed an event that is not known here", "event", m.Event)
	}
}

// handOn hands notices to the engine. One that panics over a notice has no other
// effect, and one that does not return is not waited for once the run is over.
func (l *listener) handOn(ctx context.Context) {
	for {
		select {
		case notice := <-l.notices:
			if err := l.run.notify(ctx, notice); err != nil {
				l.run.log.Debug("a notice came that nobody takes just now", "error", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// ErrNoNotices says that a run takes no notices: its engine does not, or it is not
// being executed just now.
var ErrNoNotices = errors.New("the run takes no notices: its engine does not, or it is not executed just now")

func (r *Run) notify(ctx context.Context, notice []byte) error {
	to := r.notifiable()
	if to == nil {
		return ErrNoNotices
	}
	select {
	case r.noticing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		defer func() { <-r.noticing }()
		r.handOver(ctx, to, notice)
	}()
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// notifiable returns who takes notices just now, nil for nobody.
func (r *Run) notifiable() Notifiable {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != Executing {
		return nil
	}
	return r.notices
}

func (r *Run) handOver(ctx context.Context, to Notifiable, notice []byte) {
	defer func() {
		if v := recover(); v != nil {
			r.tally.panics.Add(1)
			r.log.Error("panic in the engine over a notice", "panic", r.scrub.plain(fmt.Sprint(v)), "stack", string(debug.Stack()))
		}
	}()
	to.Notify(ctx, notice)
}

// Notify hands a notice, any JSON, to a run under way, as if the server had sent it,
// and waits until it was taken, or ctx ends. It reports whether there is such a run;
// the error is [ErrNoNotices].
func (r *Runner) Notify(ctx context.Context, runID string, notice json.RawMessage) (found bool, err error) {
	r.mu.Lock()
	var to *Run
	for run := range r.active {
		if run.ID == runID {
			to = run
		}
	}
	r.mu.Unlock()
	if to == nil {
		return false, nil
	}
	return true, to.notify(ctx, notice)
}
