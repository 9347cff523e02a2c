package lightning

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// Service is the queue and the topics. It has two goroutines, for wake-ups and
// for lost runs; Close ends them.
//
// Methods whose name ends in Locked are for a [Beyond], which calls them between Lock and
// Unlock: so what it decides over a run and what it does to it is one step.
type Service struct {
	cfg    Config
	signer signer
	waker  *waker
	log    *slog.Logger
	feed   feed

	stop   context.CancelFunc
	closed <-chan struct{}
	done   sync.WaitGroup

	sync.Mutex // guards what follows, and the runs

	runs        map[string]*Entry
	active      map[string]*Entry // claimed or started
	available   queues
	retired     fifo // ended runs, oldest first
	kept        fifo // all runs, in the order they were queued
	workers     map[string]*worker
	credentials map[string]json.RawMessage
	dataclips   map[string]json.RawMessage
	seq         uint64
	stats       Stats
}

var _ phoenix.App = (*Service)(nil)

// New returns a running service.
func New(cfg Config) (*Service, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Service{
		cfg: cfg, signer: signer{opaque: cfg.OpaqueTokens, key: cfg.Key},
		waker: newWaker(cfg.WakeDebounce), log: cfg.Logger,
		stop: stop, closed: ctx.Done(),
		runs: make(map[string]*Entry), active: make(map[string]*Entry), available: newQueues(), workers: make(map[string]*worker),
		credentials: make(map[string]json.RawMessage), dataclips: make(map[string]json.RawMessage),
	}
	s.stats.Ended = make(map[State]int64)
	s.done.Go(func() { s.waker.run(ctx) })
	s.done.Go(func() { s.clean(ctx) })
	return s, nil
}

// Close ends the service's goroutines, and every [Service.Wait] for a run that has
// not ended.
func (s *Service) Close() {
	s.stop()
	s.done.Wait()
}

// PublicKey is the key that verifies run tokens, as WORKER_LIGHTNING_PUBLIC_KEY
// takes it: PEM in base64.
func (s *Service) PublicKey() (string, error) { return s.signer.publicKey() }

// Connect implements [phoenix.App]. A worker's name is its worker_id.
func (s *Service) Connect(params url.Values) (name string, err error) {
	return verifyWorker(params.Get("token"), s.cfg.Secret, time.Now())
}

// Join implements [phoenix.App].
func (s *Service) Join(t *phoenix.Topic, payload []byte) (phoenix.Channel, phoenix.Reply) {
	if t.Name() == "worker:queue" {
		return s.joinQueue(t, payload)
	}
	if id, ok := strings.CutPrefix(t.Name(), "run:"); ok {
		return s.joinRun(id, payload)
	}
	return nil, phoenix.Unmatched()
}

// Enqueue makes a run available, and returns its id: that of the plan, or a new one if the
// plan has none. The errors are [*InvalidError], [*ConflictError] and [*FullError].
func (s *Service) Enqueue(r Run) (id string, err error) {
	added, err := s.enqueue(r)
	if err != nil {
		return "", err
	}
	s.waker.soon()
	return added.id, nil
}

// Dispatch is Enqueue and Wait for that run, of which the workers are told at once.
// When the wait ends before the run does, the run stays, and the result has its id.
func (s *Service) Dispatch(ctx context.Context, r Run) (Result, error) {
	added, err := s.enqueue(r)
	if err != nil {
		return Result{}, err
	}
	s.waker.now()
	result, err := s.wait(ctx, added)
	result.ID = added.id
	return result, err
}

func (s *Service) enqueue(r Run) (*Entry, error) {
	if r.Priority != Normal && r.Priority != Immediate {
		return nil, &InvalidError{Field: "priority", Reason: "must be normal or immediate"}
	}
	if r.Key != "" && s.cfg.Beyond == nil {
		return nil, &InvalidError{Field: "key", Reason: "needs the extended mode"}
	}
	added, err := parsePlan(r, s.cfg.RunTimeout)
	if err != nil {
		return nil, err
	}
	added.erase = added.erase || s.cfg.WipeDataclips
	if err := s.add(added); err != nil {
		return nil, err
	}
	if s.log.Enabled(context.Background(), slog.LevelWarn) {
		later := func(string) bool { return true } // a credential may be added until the run asks for it
		for _, doubt := range doubtsOf(added.plan, later) {
			s.log.Warn("a plan is doubtful", "run_id", added.id, "doubt", doubt)
		}
	}
	return added, nil
}

func (s *Service) add(added *Entry) error {
	s.Lock()
	defer s.Unlock()
	if s.runs[added.id] != nil {
		return &ConflictError{ID: added.id}
	}
	// Who is neither active nor has ended waits, if only for the end of a delay.
	if waiting := len(s.runs) - len(s.active) - s.retired.len(); s.cfg.MaxQueued > 0 && waiting >= s.cfg.MaxQueued {
		s.stats.Full++
		return &FullError{Limit: s.cfg.MaxQueued}
	}
	s.seq++
	added.seq, added.enqueued = s.seq, time.Now()
	s.runs[added.id] = added
	s.kept.push(added)
	s.available.push(added)
	s.stats.Enqueued++
	s.tellLocked(added)
	if s.cfg.Beyond != nil {
		s.cfg.Beyond.Enqueued(added)
	}
	return nil
}

// Cancel ends a run that waits. One that a worker has goes on, for Lightning cannot tell the
// worker. The errors are [ErrUnknownRun], [*StateError] when the run is over, and
// [*NotAgreedError].
func (s *Service) Cancel(id, message string) error {
	s.Lock()
	defer s.Unlock()
	r, err := s.UnfinishedLocked(id)
	switch {
	case err != nil:
		return err
	case r.state != Available:
		return &NotAgreedError{ID: id, Extension: "cancel"}
	}
	s.CancelLocked(r, message)
	return nil
}

// Notify is for the worker of a run, and Lightning cannot tell it anything. The errors are
// [ErrUnknownRun], [*StateError] when no worker has the run, and [*NotAgreedError].
func (s *Service) Notify(id string, _ json.RawMessage) error {
	s.Lock()
	defer s.Unlock()
	r, err := s.UnfinishedLocked(id)
	switch {
	case err != nil:
		return err
	case r.state == Available:
		return NotJoined(r)
	}
	return &NotAgreedError{ID: id, Extension: "notify"}
}

// UnfinishedLocked returns a run that has not ended. The errors are [ErrUnknownRun] and
// [*StateError].
func (s *Service) UnfinishedLocked(id string) (*Entry, error) {
	switch r := s.runs[id]; {
	case r == nil:
		return nil, ErrUnknownRun
	case r.state.Final():
		return nil, &StateError{ID: id, State: r.state, Problem: "it is over already"}
	default:
		return r, nil
	}
}

// CancelLocked ends a run that no worker has any more.
func (s *Service) CancelLocked(r *Entry, message string) {
	s.available.remove(r) // it is not there while it is delayed
	s.finishLocked(r, Cancelled, Result{Reason: "cancel", ErrorMessage: message})
}

// NotJoined is the error when nobody can be told of a run.
func NotJoined(r *Entry) error {
	return &StateError{ID: r.id, State: r.state, Problem: "no worker has joined its topic just now"}
}

// Wake pushes work-available to every joined worker at once.
func (s *Service) Wake() { s.waker.now() }

// Wait returns how the run ended, as soon as it has. The errors are
// [ErrUnknownRun], [ErrClosed] and the context's.
func (s *Service) Wait(ctx context.Context, id string) (Result, error) {
	s.Lock()
	r := s.runs[id]
	s.Unlock()
	if r == nil {
		return Result{}, ErrUnknownRun
	}
	return s.wait(ctx, r)
}

func (s *Service) wait(ctx context.Context, r *Entry) (Result, error) {
	s.Lock()
	if r.ended == nil {
		r.ended = make(chan struct{})
		if r.state.Final() {
			close(r.ended)
		}
	}
	ended := r.ended
	s.Unlock()

	select {
	case <-ended:
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	case <-s.closed:
	}
	s.Lock()
	defer s.Unlock()
	if !r.state.Final() {
		return Result{}, ErrClosed
	}
	return s.RecordLocked(r).Result, nil
}

// Inspect returns what is known of a run.
func (s *Service) Inspect(id string) (RunRecord, bool) {
	s.Lock()
	defer s.Unlock()
	r := s.runs[id]
	if r == nil {
		return RunRecord{}, false
	}
	return s.RecordLocked(r), true
}

// EventsAfter returns the events of a run behind its first n, and whether the run is over. It is for who follows a run, and has
// no use for a copy of all that it has seen.
func (s *Service) EventsAfter(id string, n int) (events []Event, over bool) {
	s.Lock()
	defer s.Unlock()
	r := s.runs[id]
	if r == nil {
		return nil, false
	}
	return slices.Clone(r.events[min(n, len(r.events)):]), r.state.Final()
}

// EntryLocked returns a run, nil if it is not known.
func (s *Service) EntryLocked(id string) *Entry { return s.runs[id] }

// AddCredential sets the body that fetch:credential answers with; it may be null.
func (s *Service) AddCredential(id string, body json.RawMessage) {
	s.Lock()
	defer s.Unlock()
	s.credentials[id] = body
}

// AddDataclip sets the body of a dataclip, the input of every run whose plan
// names it and that was not given one of its own.
func (s *Service) AddDataclip(id string, body json.RawMessage) {
	s.Lock()
	defer s.Unlock()
	s.dataclips[id] = body
}

// Copy returns what would queue a run again, under a new id. The error is [ErrUnknownRun].
func (s *Service) Copy(id string) (Run, error) {
	s.Lock()
	defer s.Unlock()
	r := s.runs[id]
	if r == nil {
		return Run{}, ErrUnknownRun
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(r.plan, &fields) // it was queued as one
	delete(fields, "id")
	plan, err := json.Marshal(fields)
	if err != nil {
		return Run{}, err
	}
	input := r.dataclip
	if r.wiped {
		input = nil // what is left of it is for the worker
	}
	return Run{Plan: plan, Queue: r.queue, Priority: r.priority, Dataclip: input, Credentials: r.credentials, Key: r.key}, nil
}

// finishLocked ends a run in a final state and forgets the oldest one if there
// are too many.
func (s *Service) finishLocked(r *Entry, state State, res Result) {
	r.state, r.result, r.finished = state, res, time.Now()
	if r.ended != nil {
		close(r.ended)
	}
	delete(s.active, r.id)
	if r.wiped {
		r.dataclip = nil
	}
	if s.cfg.Beyond != nil {
		s.cfg.Beyond.Finished(r)
	}
	s.stats.Ended[state]++
	s.retired.push(r)
	s.tellLocked(r)
	for s.retired.len() > max(s.cfg.KeepRuns, 0) {
		oldest := s.retired.pop()
		delete(s.runs, oldest.id)
		s.kept.remove(oldest)
	}
}

// Stats counts what happened since the start, except where it says now.
type Stats struct {
	Workers   int             `json:"workers"`   // now: joins of worker:queue
	Available int             `json:"available"` // now
	Claimed   int             `json:"claimed"`   // now: claimed, not started
	Started   int             `json:"started"`   // now
	Queues    map[string]int  `json:"queues"`    // now: available runs by queue
	Enqueued  int64           `json:"enqueued"`
	Claims    int64           `json:"claims"` // claims answered
	Empty     int64           `json:"empty_claims"`
	Wakes     int64           `json:"wakes"`  // work-available pushed, once for all workers
	Events    int64           `json:"events"` // pushes on run topics
	Refused   int64           `json:"refused_events"`
	Crashes   int64           `json:"crashes"`        // of run topics
	Ended     map[State]int64 `json:"ended"`          // by final state
	Full      int64           `json:"full,omitempty"` // runs refused since the queue was full
}

// Stats returns the counts.
func (s *Service) Stats() Stats {
	workers, wakes := s.waker.stats()
	s.Lock()
	defer s.Unlock()
	out := s.stats
	out.Workers, out.Wakes, out.Available = workers, wakes, s.available.size
	for _, r := range s.active {
		if r.state == Started {
			out.Started++
		} else {
			out.Claimed++
		}
	}
	out.Queues = make(map[string]int)
	for name, l := range s.available.byName {
		if n := l[Normal].len() + l[Immediate].len(); n > 0 {
			out.Queues[name] = n
		}
	}
	out.Ended = maps.Clone(s.stats.Ended)
	return out
}

// clean marks lost, every so often, the runs that have been claimed or started
// for longer than their time limit and the grace. They are not queued again.
func (s *Service) clean(ctx context.Context) {
	ticker := time.NewTicker(s.cfg.JanitorInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, id := range s.loseOverdue(now) {
				s.log.Warn("run lost", "run_id", id)
			}
		}
	}
}

func (s *Service) loseOverdue(now time.Time) (ids []string) {
	s.Lock()
	defer s.Unlock()
	for id, r := range s.active {
		since, errorType := r.claimed, "LostAfterClaim"
		if r.state == Started {
			since, errorType = r.started, "LostAfterStart"
		}
		if now.Sub(since) > r.timeout+grace && (s.cfg.Beyond == nil || !s.cfg.Beyond.Keeps(r)) {
			s.finishLocked(r, Lost, Result{Reason: "lost", ErrorType: errorType})
			ids = append(ids, id)
		}
	}
	return ids
}

// Struck tells of a fault, and puts it on the record of its run, if that is known.
func (s *Service) Struck(strike fault.Strike) {
	s.feed.add(Change{Fault: &strike})
	s.Lock()
	defer s.Unlock()
	if r := s.runs[strike.Run]; r != nil {
		r.faults = append(r.faults, strike)
	}
}

// ExpireToken makes a run's token expire now, for joins to come: what is joined
// stays so. It reports whether the run has a token.
func (s *Service) ExpireToken(id string) bool {
	s.Lock()
	defer s.Unlock()
	r := s.runs[id]
	if r == nil || r.token == "" {
		return false
	}
	r.expires = time.Now()
	return true
}
