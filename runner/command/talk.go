package command

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/phxworker/phxworker/runner"
)

// talk is the conversation of a worker with a process about one run. One
// goroutine has it.
type talk struct {
	cfg  *Config
	proc *process
	run  *runner.Run

	steps   map[string]*runner.Step // by the engine's ids
	open    map[string]bool         // those not completed
	printed int                     // what the process printed, in bytes
	written chan error              // gets one value when the run message is written, or cannot be
	notices <-chan json.RawMessage
	// clean tells, afterwards, that the process ended the run as it should, and
	// can take another.
	clean bool
}

// hold tells the process of the run, and reports what it says until the run is
// over.
func (t *talk) hold(ctx context.Context, line []byte, memoryMB int) (runner.Result, error) {
	memory, space := watchMemory(t.proc, memoryMB), watchSpace(t.proc, t.cfg.TempMB)
	defer memory.stop()
	defer space.stop()
	t.proc.begin()
	// The process may have much to say before it has read the whole message.
	t.written = make(chan error, 1)
	go func() { t.written <- t.proc.write(line) }()
	stop := t.passOn()
	defer t.endWriting(stop)

	for {
		select {
		case m, ok := <-t.proc.messages:
			if !ok {
				return runner.Result{}, t.autopsy(ctx, memory, space)
			}
			over, result, err := t.take(&m)
			if over {
				return result, err
			}
		case <-ctx.Done():
			t.cancel(ctx)
			return runner.Result{}, context.Cause(ctx)
		}
	}
}

// passOn writes notices to the process, behind the run, until stop is called, which waits
// for that and reports whether all of them were written in whole.
func (t *talk) passOn() (stop func() bool) {
	over, torn := make(chan struct{}), false
	var passing sync.WaitGroup
	passing.Go(func() {
		err := <-t.written
		t.written <- err
		for err == nil && !torn {
			select {
			case notice := <-t.notices:
				line, err := encode(struct {
					Type   string          `json:"type"`
					Notice json.RawMessage `json:"notice"`
				}{"notify", notice})
				torn = err == nil && t.proc.write(line) != nil // what is no JSON is left out
			case <-over:
				return
			}
		}
	})
	return func() bool {
		close(over)
		passing.Wait()
		return !torn
	}
}

// endWriting waits until nobody writes to the process any more. A process that
// has ended its run without having read all of it is of no use for another.
func (t *talk) endWriting(stop func() bool) {
	// A write that is done, and has only not said so yet, does not notice.
	_ = t.proc.stdin.SetWriteDeadline(past)
	whole := stop()
	err := <-t.written
	t.clean = t.clean && whole && err == nil && t.proc.stdin.SetWriteDeadline(time.Time{}) == nil
}

// cancel tells the process that the run is to end, and kills it when it has not
// ended it after a while.
func (t *talk) cancel(ctx context.Context) {
	defer func() { t.clean = false }() // it may have ended the run, but is being killed
	if t.cfg.CancelGrace > 0 {
		t.askToEnd(ctx)
	}
	t.proc.kill()
	for m := range t.proc.messages { // what it had said before
		if over, _, _ := t.take(&m); over {
			return
		}
	}
	<-t.proc.exited
}

// askToEnd returns when the process has ended the run, or the grace is over.
func (t *talk) askToEnd(ctx context.Context) {
	deadline := time.Now().Add(t.cfg.CancelGrace)
	select {
	case err := <-t.written:
		t.written <- err
		if err != nil {
			return
		}
		line, err := encode(struct {
			Type   string `json:"type"`
			Reason string `json:"reason"`
		}{"cancel", context.Cause(ctx).Error()})
		if err != nil {
			return
		}
		_ = t.proc.stdin.SetWriteDeadline(deadline)
		if t.proc.write(line) != nil {
			return
		}
	default: // it has not read the run yet, and there is no line to put another behind
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		select {
		case m, ok := <-t.proc.messages:
			if !ok {
				return
			}
			if over, _, _ := t.take(&m); over {
				return
			}
		case <-timer.C:
			return
		}
	}
}

// autopsy says what it means for the run that its process has nothing more to
// say.
func (t *talk) autopsy(ctx context.Context, memory, space *watch) error {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	mute := false
	select {
	case <-t.proc.exited:
	case <-timer.C:
		mute = true
		t.proc.kill()
		<-t.proc.exited
	}
	switch {
	case memory.exceeded() || t.proc.tooLarge:
		return memoryFailure()
	case space.exceeded():
		return spaceFailure(t.cfg.TempMB)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case mute:
		return protocolFailure("it closed its output before the end of the run")
	}
	exit := t.proc.exit
	if t.cfg.Died != nil {
		if failure := t.cfg.Died(exit); failure != nil {
			return failure
		}
	}
	if text := strings.TrimSpace(strings.ToValidUTF8(string(exit.Stderr), "\uFFFD")); text != "" && t.proc.mayQuote() {
		t.run.Log(runner.TextLine("error", "ERR", text))
	}
	return exitFailure(exit)
}
