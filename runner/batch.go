package runner

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/channel"
)

// BatchLogs says how lines are collected for run:batch_logs, which only newer
// versions of Lightning have. A server that does not know it crashes the run's
// topic; the lines then go one by one, and so do those of all later runs.
type BatchLogs struct {
	// Interval is how long a line may wait for others.
	Interval time.Duration
	// Limit is the most lines in a message. With less than 2 there are no batches.
	Limit int
}

// batchBytes bounds the lines of one batch, well under the limit of a frame even
// when escaping makes them longer.
const batchBytes = 4 << 20

// batches makes batches of the lines at the head of an outbox. It is the
// sender's own.
type batches struct {
	runID string
	cfg   BatchLogs
	// Of all runs: known is set once the server has taken a batch, off when it does not seem
	// to know them.
	known, off *atomic.Bool
}

// take reports whether the event is a line that goes with others.
func (b *batches) take(e event) bool {
	_, line := e.(*runLog)
	return line && b != nil && !b.off.Load()
}

// sendBatch delivers the lines at the head. A batch that is refused, for one bad
// line in it or for whatever reason, is delivered line by line.
func (o *outbox) sendBatch(ctx context.Context) error {
	lines := o.collect(ctx)
	if len(lines) == 1 {
		return o.send(ctx, lines[0])
	}
	before := o.epoch
	refusal, err := o.deliver(ctx, &logBatch{runID: o.batches.runID, lines: lines}, new(tries))
	if err != nil {
		return err
	}
	if refusal == nil {
		o.batches.known.Store(true)
	}
	if refusal == nil || errors.Is(refusal, channel.ErrOutcomeUnknown) && !lines[0].repeatable() {
		for _, line := range lines {
			o.settle(line, refusal)
		}
		o.pop(len(lines))
	} else if err := o.sendEach(ctx, lines); err != nil {
		return err
	}
	// A server that takes nothing at all just now says nothing about batches: then the
	// lines crash as well, and their topic was joined more than once.
	if errors.Is(refusal, channel.ErrCrashed) && !o.batches.known.Load() && o.epoch <= before+1 && o.batches.off.CompareAndSwap(false, true) {
		o.log.Warn("the server crashed over run:batch_logs, and not over run:log; lines go one by one from now on", "error", refusal)
	}
	return nil
}

func (o *outbox) sendEach(ctx context.Context, lines []*runLog) error {
	for _, line := range lines {
		if err := o.send(ctx, line); err != nil {
			return err
		}
	}
	return nil
}

// collect returns the lines at the head that go together, at least one. It waits
// for more only while nothing else waits behind them.
func (o *outbox) collect(ctx context.Context) []*runLog {
	timer := time.NewTimer(o.batches.cfg.Interval)
	defer timer.Stop()
	for {
		lines, complete := o.lines(o.batches.cfg.Limit)
		if complete {
			return lines
		}
		select {
		case <-o.work:
		case <-timer.C:
			return lines
		case <-ctx.Done():
			return lines
		case <-o.topic.Done():
			return lines
		}
	}
}

// lines returns the lines at the head, limit at most, and whether there is no
// use in waiting for more.
func (o *outbox) lines(limit int) (lines []*runLog, complete bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	size := 0
	for _, q := range o.queue {
		line, ok := q.event.(*runLog)
		size += q.size
		if !ok || len(lines) == limit || len(lines) > 0 && size > batchBytes {
			return lines, true
		}
		lines = append(lines, line)
	}
	return lines, o.closed || o.dead || len(lines) == limit
}

// logBatch is some lines in one event. They stay in the outbox until it is
// delivered.
type logBatch struct {
	plain

	runID string
	lines []*runLog
}

func isBatch(e event) bool {
	_, batch := e.(*logBatch)
	return batch
}

func (e *logBatch) name() string     { return "run:batch_logs" }
func (e *logBatch) repeatable() bool { return e.lines[0].repeatable() } // they are all alike
func (e *logBatch) payload() any {
	p := struct {
		RunID string     `json:"run_id"`
		Logs  []logEntry `json:"logs"`
	}{e.runID, make([]logEntry, len(e.lines))}
	for i, line := range e.lines {
		p.Logs[i] = line.entry()
	}
	return p
}
