package phxworker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/runner/terms"
)

// claims is the [claim.Claimer] of one group. It claims as many runs as the turnstile admits.
type claims struct {
	queue     *queue
	turnstile *turnstile
	group     string
}

var _ claim.Claimer = (*claims)(nil)

func (c *claims) Ready() <-chan struct{} {
	if room, changed := c.turnstile.room(c.group); room == 0 {
		return changed
	}
	join, changed := c.queue.topic.Current()
	if join != nil {
		return closedChannel
	}
	return changed
}

var closedChannel = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (c *claims) Claim(ctx context.Context, req claim.Request) ([]claim.Run, error) {
	admitted, trial := c.turnstile.admit(c.group, req.Demand)
	if admitted == 0 {
		return nil, claim.ErrNotReady
	}
	req.Demand = admitted
	runs, err := c.queue.claim(ctx, req, !trial) // a trial must not wait at the server: other claims wait for it
	c.turnstile.noteAnswer(c.group, admitted, len(runs), trial && err == nil)
	return runs, err
}

// claim sends a claim and waits for the reply, also while the worker stops. With mayWait, and if that
// was agreed on, the server may wait for a run before it answers. The error is [claim.ErrNotReady] when
// the queue is not joined.
func (q *queue) claim(ctx context.Context, req claim.Request, mayWait bool) ([]claim.Run, error) {
	join, _ := q.topic.Current()
	if join == nil {
		return nil, claim.ErrNotReady
	}
	if mayWait {
		req.WaitMS = q.waitFor(ctx, join)
	}
	patience := q.patience + time.Duration(req.WaitMS)*time.Millisecond
	overdue := time.AfterFunc(patience, func() {
		q.log.Warn("the server has not answered a claim yet; still waiting", "queues", req.Queues, "after", patience)
	})
	defer overdue.Stop()
	// The claim goes out under this join alone: the terms of its runs were agreed on with it.
	var reply channel.Reply
	var err error
	if req.WaitMS > 0 {
		reply, err = q.set.Push(ctx, join, extLongpoll, "claim", req)
	} else {
		reply, err = join.Push(ctx, "claim", req)
	}
	if errors.Is(err, channel.ErrNotSent) {
		if join, _ := q.topic.Current(); join == nil { // the join was lost at this very moment
			return nil, claim.ErrNotReady
		}
	}
	q.budget.count(err)
	if errors.Is(err, channel.ErrOutcomeUnknown) {
		what, fate := "a claim was not answered", "may be lost" // a server may take it back that finds nobody to answer
		if errors.As(err, new(*channel.AnswerTooLargeError)) {
			what, fate = "a claim was answered with more than is read", "is lost"
		}
		if q.set.Agreed(join, extClaimAck, nil) {
			fate = "goes to another worker"
		}
		q.log.Warn(what+"; if the server has given a run away with it, that "+fate, "queues", req.Queues, "error", err)
	}
	if err != nil {
		return nil, err
	}
	return q.read(reply, join, req.Demand)
}

// longestWait is how long a claim waits at the server at most. One that has no answer for a minute is
// taken for one that is not answered, in the status and by probes.
const longestWait = 30 * time.Second

// waitFor returns how many milliseconds a claim may wait at the server: half the time until the worker
// gives it up at most, and never longer than longestWait. A waiting claim delays a stop unless the server learns of the stop, so it is 0
// unless statuses were agreed on as well.
func (q *queue) waitFor(ctx context.Context, join *channel.Join) int64 {
	var agreed struct {
		MaxWaitMS float64 `json:"max_wait_ms"`
	}
	if !q.set.Agreed(join, extLongpoll, &agreed) || q.statusInterval(join) == never {
		return 0
	}
	wait := min(extension.Milliseconds(agreed.MaxWaitMS), longestWait)
	if until, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(until)/2)
	}
	return wait.Milliseconds()
}

const (
	// maxClaimed is how many runs are read from one reply, unless more were asked for. All of them
	// wait for slots of this worker.
	maxClaimed = 1000
	// maxRunID and maxToken are in bytes, many times what Lightning has. The worker keeps both as
	// long as the run, and each log line about the run has its id.
	maxRunID = 1000
	maxToken = 64 << 10
)

// read reads the reply to a claim, run by run, for it may have millions of elements. A run that cannot
// be read is left out, so that the others are not lost: the server has given them away as well.
func (q *queue) read(reply channel.Reply, join *channel.Join, demand int) (runs []claim.Run, err error) {
	var body struct {
		Runs json.RawMessage `json:"runs"`
	}
	if err := reply.Decode(&body); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body.Runs))
	switch start, err := decoder.Token(); {
	case errors.Is(err, io.EOF), err == nil && start == nil: // no runs, or null
		return nil, nil
	case start != json.Delim('['):
		return nil, errors.New("the runs are no array")
	}
	var unreadable []error
	most := max(maxClaimed, demand)
	for n := 0; decoder.More(); n++ {
		if n == most {
			q.log.Error("the server gave many more runs than were asked for; those after the first are lost", "demand", demand, "first", most)
			break
		}
		var data json.RawMessage
		if err := decoder.Decode(&data); err != nil {
			return nil, err
		}
		run, err := q.readRun(data, join)
		if err != nil {
			unreadable = append(unreadable, err)
			continue
		}
		runs = append(runs, run)
	}
	if len(unreadable) > 0 {
		q.log.Error("the server gave a run that cannot be read; it is lost", "runs", len(unreadable), "error", unreadable[0])
	}
	return runs, nil
}

// readRun reads one run, with its lease and its attempt if these were agreed on. If they cannot be
// read, they stay zero: the run has been given away.
func (q *queue) readRun(data json.RawMessage, join *channel.Join) (run claim.Run, err error) {
	if err := json.Unmarshal(data, &run); err != nil {
		return run, err
	}
	if len(run.ID) > maxRunID || len(run.Token) > maxToken {
		return run, fmt.Errorf("its id has %d bytes, and its token %d; %d and %d are the most that are taken", len(run.ID), len(run.Token), maxRunID, maxToken)
	}
	leased, counted := q.set.Agreed(join, extLease, nil), q.set.Agreed(join, extAttempt, nil)
	if !leased && !counted {
		return run, nil
	}
	var told struct {
		LeaseMS float64 `json:"lease_ms"`
		Attempt int     `json:"attempt"`
	}
	_ = json.Unmarshal(data, &told)
	if leased {
		run.Lease = extension.Milliseconds(told.LeaseMS)
	}
	if counted {
		run.Attempt = told.Attempt
	}
	return run, nil
}

var _ terms.Releaser = (*queue)(nil)

// TakesBack reports whether the server takes runs back, and whether that is known at the moment.
func (q *queue) TakesBack() (yes, known bool) {
	join, _ := q.topic.Current()
	return join != nil && q.set.Agreed(join, extRelease, nil), join != nil
}

// notClaimed is the reason of a server that refuses the release of a run which is not the worker's.
const notClaimed = "not_claimed"

// Release returns a run to the queue. When the join is lost before the answer, it sends the release
// again after the rejoin. If the server then refuses it because the run is not this worker's, the first
// one had arrived.
func (q *queue) Release(ctx context.Context, r terms.Release) error {
	before := false
	for {
		join, err := q.topic.Ready(ctx)
		if err == nil && ctx.Err() != nil { // otherwise each push would fail at once, for ever
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		_, err = q.set.Push(ctx, join, extRelease, "run:release", r)
		var refused *channel.RefusedError
		switch {
		case err == nil, before && errors.As(err, &refused) && refused.Reason() == notClaimed:
			return nil
		case errors.Is(err, channel.ErrOutcomeUnknown) && ctx.Err() == nil:
			before = true
		case !errors.Is(err, channel.ErrNotSent):
			return err
		}
	}
}
