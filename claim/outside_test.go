package claim_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

// outside is all that loops see of the world: the server they claim from, and
// the place where runs are executed. It records what was asked of it, and
// counts for itself what each group has running and asked for.
type outside struct {
	began time.Time

	mu       sync.Mutex
	queued   map[string][]claim.Run // by queue
	latency  time.Duration          // of a claim
	lasts    time.Duration          // of a run; 0: until finish
	answer   func(claim.Request) ([]claim.Run, error)
	unready  chan struct{} // not nil while the server is away
	hold     chan struct{} // replies wait until it is closed
	asked    []ask
	started  []start
	slots    map[string]*slots.Slot // by run id
	inUse    map[string]int         // by group: running and asked for
	peak     map[string]int         // the most of it
	enqueued int
}

type ask struct {
	at    time.Duration
	group string
	req   claim.Request
}

type start struct {
	at    time.Duration
	group string // of the slot
	run   claim.Run
}

func newOutside() *outside {
	return &outside{
		began:  time.Now(),
		queued: map[string][]claim.Run{},
		slots:  map[string]*slots.Slot{},
		inUse:  map[string]int{},
		peak:   map[string]int{},
	}
}

// Ready implements [claim.Claimer].
func (o *outside) Ready() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unready != nil {
		return o.unready
	}
	return always
}

// always is the Ready of a server that is never away.
var always = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// leave takes the server away, and returns what brings it back.
func (o *outside) leave() (back func()) {
	away := make(chan struct{})
	o.set(func(o *outside) { o.unready = away })
	return func() {
		o.set(func(o *outside) { o.unready = nil })
		close(away)
	}
}

func (o *outside) Claim(ctx context.Context, req claim.Request) ([]claim.Run, error) {
	group := strings.Join(req.Queues, ">")
	o.mu.Lock()
	req.Queues = slices.Clone(req.Queues)
	o.asked = append(o.asked, ask{at: time.Since(o.began), group: group, req: req})
	o.useLocked(group, req.Demand)
	latency, hold := o.latency, o.hold
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.useLocked(group, -req.Demand)
		o.mu.Unlock()
	}()

	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if latency > 0 {
		time.Sleep(latency)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.answer != nil {
		return o.answer(req)
	}
	return o.takeLocked(req), nil
}

// takeLocked is the server's choice: by the order of the queues, "*" for the rest.
func (o *outside) takeLocked(req claim.Request) (runs []claim.Run) {
	queues := req.Queues
	if slices.Contains(queues, "*") {
		queues = slices.Clone(queues)
		queues = append(queues, []string{"default", "fast_lane", "manual"}...)
	}
	for _, queue := range queues {
		n := min(req.Demand-len(runs), len(o.queued[queue]))
		runs = append(runs, o.queued[queue][:n]...)
		o.queued[queue] = o.queued[queue][n:]
	}
	return runs
}

func (o *outside) Start(run claim.Run, slot *slots.Slot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	group := slot.Group().Name
	o.started = append(o.started, start{at: time.Since(o.began), group: group, run: run})
	o.slots[run.ID] = slot
	o.useLocked(group, 1)
	if o.lasts > 0 {
		time.AfterFunc(o.lasts, func() { o.finish(run.ID) })
	}
}

// finish ends a run that was started.
func (o *outside) finish(id string) {
	o.mu.Lock()
	slot := o.slots[id]
	delete(o.slots, id)
	o.useLocked(slot.Group().Name, -1)
	o.mu.Unlock()
	slot.Release()
}

func (o *outside) useLocked(group string, n int) {
	o.inUse[group] += n
	o.peak[group] = max(o.peak[group], o.inUse[group])
}

// enqueue puts n runs into a queue, with ids r1, r2 and so on, over all queues.
func (o *outside) enqueue(queue string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range n {
		o.enqueued++
		o.queued[queue] = append(o.queued[queue], claim.Run{ID: "r" + strconv.Itoa(o.enqueued), Token: "token"})
	}
}

func (o *outside) set(change func(*outside)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o)
}

// asks returns when the group claimed.
func (o *outside) asks(group string) (at []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.asked {
		if a.group == group {
			at = append(at, a.at)
		}
	}
	return at
}

func (o *outside) requests() (requests []claim.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.asked {
		requests = append(requests, a.req)
	}
	return requests
}

// runs returns the ids of the runs started in the group, or in any if it is "".
func (o *outside) runs(group string) (ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.started {
		if group == "" || s.group == group {
			ids = append(ids, s.run.ID)
		}
	}
	return ids
}

// starts returns what was started, in order.
func (o *outside) starts() []start {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.started)
}

func (o *outside) peakOf(group string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.peak[group]
}

var errGone = errors.New("the connection is gone")

// fails answers every claim with an error.
func fails(err error) func(claim.Request) ([]claim.Run, error) {
	return func(claim.Request) ([]claim.Run, error) { return nil, err }
}
