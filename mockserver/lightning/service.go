package lightning

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// Service is the queue and the topics. It has two goroutines, for wake-ups and
// for lost runs, and in extended mode a third; Close ends them.
type Service struct {
	cfg    Config
	signer signer
	waker  *waker
	log    *slog.Logger

	stop   context.CancelFunc
	closed <-chan struct{}
	done   sync.WaitGroup

	mu          sync.Mutex // guards what follows, and the runs
	runs        map[string]*run
	active      map[string]*run // claimed or started
	available   queues
	retired     fifo // ended runs, oldest first
	credentials map[string]json.RawMessage
	dataclips   map[string]json.RawMessage
	seq         uint64
	stats       Stats
	ext         *extended // constant: nil if only Lightning's own protocol is known
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
		runs: make(map[string]*run), active: make(map[string]*run), available: newQueues(),
		credentials: make(map[string]json.RawMessage), dataclips: make(map[string]json.RawMessage),
	}
	s.stats.Ended = make(map[State]int64)
	if cfg.Extensions != nil {
		s.ext = newExtended(s, *cfg.Extensions)
		s.done.Go(func() { s.ext.run(ctx) })
	}
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
		return s.joinRun(t, id, payload)
	}
	return nil, phoenix.Unmatched()
}

// Enqueue makes a run available. The errors are [*InvalidError],
// [*ConflictError] and [*FullError].
func (s *Service) Enqueue(r Run) error {
	_, err := s.enqueue(r)
	if err == nil {
		s.waker.soon()
	}
	return err
}

// Dispatch is Enqueue and Wait for that run, of which the workers are told at once.
// When the wait ends before the run does, the run stays.
func (s *Service) Dispatch(ctx context.Context, r Run) (Result, error) {
	added, err := s.enqueue(r)
	if err != nil {
		return Result{}, err
	}
	s.waker.now()
	return s.wait(ctx, added)
}

func (s *Service) enqueue(r Run) (*run, error) {
	if r.Priority != Normal && r.Priority != Immediate {
		return nil, &InvalidError{Field: "priority", Reason: "must be normal or immediate"}
	}
	if r.Key != "" && s.ext == nil {
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
		for _, doubt := range Doubts(added.plan) {
			s.log.Warn("a plan is doubtful", "run_id", added.id, "doubt", doubt)
		}
	}
	return added, nil
}

func (s *Service) add(added *run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[added.id] != nil {
		return &ConflictError{ID: added.id}
	}
	if s.cfg.MaxQueued > 0 && s.available.size+s.ext.delayed() >= s.cfg.MaxQueued {
		s.stats.Full++
		return &FullError{Limit: s.cfg.MaxQueued}
	}
	s.seq++
	added.seq, added.enqueued = s.seq, time.Now()
	s.runs[added.id] = added
	s.available.push(added)
	s.stats.Enqueued++
	if s.ext != nil {
		s.ext.enqueuedLocked(added)
	}
	return nil
}

// Wake pushes work-available to every joined worker at once.
func (s *Service) Wake() { s.waker.now() }

// Wait returns how the run ended, as soon as it has. The errors are
// [ErrUnknownRun], [ErrClosed] and the context's.
func (s *Service) Wait(ctx context.Context, id string) (Result, error) {
	s.mu.Lock()
	r := s.runs[id]
	s.mu.Unlock()
	if r == nil {
		return Result{}, ErrUnknownRun
	}
	return s.wait(ctx, r)
}

func (s *Service) wait(ctx context.Context, r *run) (Result, error) {
	s.mu.Lock()
	if r.ended == nil {
		r.ended = make(chan struct{})
		if r.state.Final() {
			close(r.ended)
		}
	}
	ended := r.ended
	s.mu.Unlock()

	select {
	case <-ended:
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	case <-s.closed:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.state.Final() {
		return Result{}, ErrClosed
	}
	return r.recordLocked().Result, nil
}

// Inspect returns what is known of a run.
func (s *Service) Inspect(id string) (RunRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[id]
	if r == nil {
		return RunRecord{}, false
	}
	return r.recordLocked(), true
}

// AddCredential sets the body that fetch:credential answers with; it may be null.
func (s *Service) AddCredential(id string, body json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credentials[id] = body
}

// AddDataclip sets the body of a dataclip, the input of every run whose plan
// names it and that was not given one of its own.
func (s *Service) AddDataclip(id string, body json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dataclips[id] = body
}

// finishLocked ends a run in a final state and forgets the oldest one if there
// are too many.
func (s *Service) finishLocked(r *run, state State, res Result) {
	r.state, r.result, r.finished = state, res, time.Now()
	if r.ended != nil {
		close(r.ended)
	}
	delete(s.active, r.id)
	if s.ext != nil {
		s.ext.finishedLocked(r)
	}
	s.stats.Ended[state]++
	s.retired.push(r)
	for s.retired.len() > max(s.cfg.KeepRuns, 0) {
		delete(s.runs, s.retired.pop().id)
	}
}
