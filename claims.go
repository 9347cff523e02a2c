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

// claims are those of one group: as large as the turnstile lets them be, on the queue's topic.
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
	join, changed := c.queue.now()
	if join != nil {
		return always
	}
	return changed
}

// always is closed.
var always = func() <-chan struct{} {
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
	runs, err := c.queue.claim(ctx, req, !trial) // others wait for a trial, which must not wait at the server
	c.turnstile.answered(c.group, admitted, len(runs), trial && err == nil)
	return runs, err
}

// claim puts a claim, which may wait at the server if that was agreed on. Once it has sent
// it, it waits for the reply also while the worker stops. The error is [claim.ErrNotReady]
// when the queue is not joined.
func (q *queue) claim(ctx context.Context, req claim.Request, mayWait bool) ([]claim.Run, error) {
	join, _ := q.now()
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
	// Under this join alone: what its runs are given for was agreed on with it.
	var reply channel.Reply
	var err error
	if req.WaitMS > 0 {
		reply, err = q.set.Push(ctx, join, extLongpoll, "claim", req)
	} else {
		reply, err = join.Push(ctx, "claim", req)
	}
	if errors.Is(err, channel.ErrNotSent) {
		if join, _ := q.now(); join == nil { // it was lost in this very moment
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

// waitFor returns for how many milliseconds a claim may wait at the server. A
// waiting claim holds up a stop, unless the server hears of that; so both must be
// agreed on. It must be answered well before the worker gives it up.
func (q *queue) waitFor(ctx context.Context, join *channel.Join) int64 {
	var agreed struct {
		MaxWaitMS float64 `json:"max_wait_ms"`
	}
	if !q.set.Agreed(join, extLongpoll, &agreed) || q.statusInterval(join) == never {
		return 0
	}
	wait := extension.Milliseconds(agreed.MaxWaitMS)
	if until, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(until)/2)
	}
	return wait.Milliseconds()
}

const (
	// maxClaimed is how many runs are taken of one reply, if no more were asked for: what is
	// too much waits for a slot here, which nobody else can give it.
	maxClaimed = 1000
	// maxRunID and maxToken are in bytes, and many times what Lightning has. Both are held
	// for as long as the run, and the id is on each line about it.
	maxRunID = 1000
	maxToken = 64 << 10
)

// read reads the reply to a claim, run by run: it may have millions of something else. One run
// that cannot be read must not cost the others, which the server has given away as well.
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

// readRun reads one run, with what was agreed on that the server tells of it. What cannot be
// read of that is left out: the run has been given away.
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

func (q *queue) TakesBack() (yes, known bool) {
	join, _ := q.now()
	return join != nil && q.set.Agreed(join, extRelease, nil), join != nil
}

var _ terms.Releaser = (*queue)(nil)

// notClaimed is why a server refuses the release of a run that the worker does not have.
const notClaimed = "not_claimed"

// Release implements [terms.Releaser]. A release of which nobody knows whether
// it arrived is made again after a rejoin. If that one is refused because the run is not
// this worker's any more, the first had arrived.
func (q *queue) Release(ctx context.Context, r terms.Release) error {
	before := false
	for {
		join, err := q.nextJoin(ctx)
		if err == nil && ctx.Err() != nil { // else each push would fail at once, for ever
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
