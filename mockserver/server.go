package mockserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/phxworker/phxworker/mockserver/extended"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// Server is a mock Lightning and its http.Handler.
type Server struct {
	cfg        Config
	pool       pool
	service    *lightning.Service
	extended   *extended.Service // nil in Lightning's mode
	faults     *faults
	endpoint   *phoenix.Endpoint
	transcript *phoenix.Transcript
	routes     http.Handler
	followers  atomic.Int64 // of GET /events
	epoch      string       // tells its changes from those of a server that was here before

	listener net.Listener // nil unless made by Start
	http     *http.Server // likewise
	serving  sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
}

var _ http.Handler = (*Server)(nil)

// pool is the queue and the topics, as the mode has them.
type pool interface {
	phoenix.App
	Cancel(id, message string) error
	Notify(id string, payload json.RawMessage) error
	Close()
}

var (
	_ pool = (*lightning.Service)(nil)
	_ pool = (*extended.Service)(nil)
)

// New returns a server that listens nowhere by itself: it is served as an
// http.Handler. It must be closed.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("mock server: %w", err)
	}
	s := &Server{cfg: cfg, epoch: rand.Text()[:8]}
	if cfg.Mode == Extended {
		if s.extended, err = extended.New(cfg.plain(), cfg.extensions()); err != nil {
			return nil, err
		}
		s.service, s.pool = s.extended.Service, s.extended
	} else {
		if s.service, err = lightning.New(cfg.plain()); err != nil {
			return nil, err
		}
		s.pool = s.service
	}
	s.faults = &faults{set: fault.NewSet(cfg.FaultSeed), service: s.service}
	if cfg.TranscriptLimit > 0 {
		s.transcript = phoenix.NewTranscript(cfg.TranscriptLimit)
	}
	s.endpoint, err = phoenix.NewEndpoint(phoenix.Config{
		App: s.pool, IdleTimeout: cfg.IdleTimeout, MaxFrame: cfg.MaxFrame, MaxTopics: cfg.MaxTopics,
		Transcript: s.transcript, Faults: s.faults, Logger: cfg.Logger,
	})
	if err != nil {
		s.pool.Close()
		return nil, err
	}
	for _, r := range cfg.Faults {
		if _, err := s.AddFault(r); err != nil {
			_ = s.Close()
			return nil, err
		}
	}
	s.routes = s.newRoutes()
	return s, nil
}

// Start returns a server that listens on Config.Addr. It must be closed.
func Start(cfg Config) (*Server, error) {
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	s.listener, err = new(net.ListenConfig).Listen(context.Background(), "tcp", s.cfg.Addr)
	if err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("start the mock server: %w", err)
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	s.serving.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.cfg.Logger.Error("mock server stopped", "error", err)
		}
	})
	return s, nil
}

// Close drains the server as SIGTERM does a real one: every socket is closed with
// code 1012. It returns when nothing runs any more, and may be called again.
func (s *Server) Close() error {
	s.closeOnce.Do(func() { s.closeErr = s.close() })
	return s.closeErr
}

func (s *Server) close() error {
	_ = s.endpoint.Close() // refuses new sockets from here on
	s.pool.Close()
	if s.http == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	s.serving.Wait()
	return err
}

// ServeHTTP serves the websocket endpoint and the HTTP interface.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.routes.ServeHTTP(w, r) }

// URL is what a worker connects to: ws://127.0.0.1:PORT/worker. It is empty
// unless the server was made by Start.
func (s *Server) URL() string { return s.url("ws", "/worker") }

// HTTPURL is the base of the HTTP interface: http://127.0.0.1:PORT.
func (s *Server) HTTPURL() string { return s.url("http", "") }

func (s *Server) url(scheme, path string) string {
	if s.listener == nil {
		return ""
	}
	return scheme + "://" + s.listener.Addr().String() + path
}

// Secret is the WORKER_SECRET.
func (s *Server) Secret() string { return s.cfg.Secret }

// WorkerToken returns a token with which a client may connect, as the parameter token of
// [Server.URL]. The worker_id in it is the name by which faults and records know the
// worker.
func (s *Server) WorkerToken(id string) string { return lightning.WorkerToken(s.cfg.Secret, id) }

// PublicKey is the key that verifies run tokens, as WORKER_LIGHTNING_PUBLIC_KEY
// takes it: PEM in base64. It is empty if run tokens are opaque, or if no key
// could be made.
func (s *Server) PublicKey() string {
	if s.cfg.OpaqueTokens {
		return ""
	}
	key, err := s.service.PublicKey()
	if err != nil {
		s.cfg.Logger.Error("no public key", "error", err)
	}
	return key
}

// Mode is [Lightning] or [Extended].
func (s *Server) Mode() Mode { return s.cfg.Mode }

// Enqueue makes a run available to the workers, and tells them after
// Config.WakeDebounce. It returns the run's id: that of the plan, or a new one if the plan
// has none. The errors are [*ConflictError], [*InvalidError] and [*FullError].
func (s *Server) Enqueue(r Run) (id string, err error) { return s.service.Enqueue(r) }

// Doubts returns what in the plan of a run can hardly mean what it says, a sentence each; nil if there is nothing. The
// run may be queued all the same.
func (s *Server) Doubts(r Run) []string { return s.service.Doubts(r) }

// Dispatch is Enqueue and Wait for that run, of which the workers are told at once.
// When the wait ends before the run does, the run stays, and the result has its id.
func (s *Server) Dispatch(ctx context.Context, r Run) (Result, error) {
	return s.service.Dispatch(ctx, r)
}

// Cancel ends a run that waits at once, and has the worker of one that does not
// told to, which ends when that worker says so. The message is for the worker and may be
// empty. The errors are [ErrUnknownRun], [*StateError] when the run is over, and
// [*NotAgreedError] when its worker does not know how.
func (s *Server) Cancel(id, message string) error { return s.pool.Cancel(id, message) }

// Notify sends a JSON object to whatever executes a run. The errors are
// [ErrUnknownRun], [*StateError] when no worker has joined the run's topic just now,
// [*NotAgreedError] and [ErrNotification].
func (s *Server) Notify(id string, payload json.RawMessage) error {
	var object map[string]json.RawMessage
	if json.Unmarshal(payload, &object) != nil || object == nil {
		return ErrNotification
	}
	return s.pool.Notify(id, payload)
}

// DrainWorkers tells the workers to claim no more, to end their runs and to leave, and
// returns how many were told: those that have agreed on it. It does not wait for
// them.
func (s *Server) DrainWorkers() int { return s.drain("") }

// DrainWorker is DrainWorkers for one worker, by its worker_id. It reports whether that was told.
func (s *Server) DrainWorker(id string) bool { return id != "" && s.drain(id) > 0 }

func (s *Server) drain(id string) int {
	if s.extended == nil {
		return 0
	}
	return s.extended.DrainWorkers(id)
}

// PauseWorker has a worker, by its worker_id, be given no run until ResumeWorker, or until it has left and owns
// nothing. What it has goes on. It reports whether there is such a worker; in Lightning's mode there is none that can be paused.
func (s *Server) PauseWorker(id string) bool { return s.extended != nil && s.extended.Pause(id, true) }

// ResumeWorker ends a pause, and reports whether there is such a worker.
func (s *Server) ResumeWorker(id string) bool {
	return s.extended != nil && s.extended.Pause(id, false)
}

// Workers returns the workers that there are, by their ids.
func (s *Server) Workers() []WorkerRecord {
	if s.extended != nil {
		return s.extended.Workers()
	}
	var all []WorkerRecord
	for _, plain := range s.service.Workers() {
		all = append(all, WorkerRecord{WorkerRecord: plain})
	}
	return all
}

// Wake pushes work-available to every joined worker at once.
func (s *Server) Wake() { s.service.Wake() }

// Wait returns how a run ended, as soon as it has. The errors are
// [ErrUnknownRun], [ErrClosed] and the cause of the context's end.
func (s *Server) Wait(ctx context.Context, id string) (Result, error) { return s.service.Wait(ctx, id) }

// Inspect returns what is known of a run, and whether it is known.
func (s *Server) Inspect(id string) (RunRecord, bool) {
	if s.extended != nil {
		return s.extended.Inspect(id)
	}
	plain, found := s.service.Inspect(id)
	return RunRecord{RunRecord: plain}, found
}

// EventsAfter returns the events of a run behind its first n, and whether the run is over: it is [Server.Inspect] for who
// follows a run.
func (s *Server) EventsAfter(id string, n int) (events []Event, over bool) {
	return s.service.EventsAfter(id, n)
}

// Runs returns the runs that the query asks for, those queued last first.
func (s *Server) Runs(q RunQuery) RunPage { return s.service.List(q) }

// ChangesAfter returns the changes behind number n, oldest first, as far as they are kept: the last 4,096. If the first one has
// not the next number, those between are forgotten. more is closed when there are others.
func (s *Server) ChangesAfter(n uint64) (changes []Change, more <-chan struct{}) {
	return s.service.ChangesAfter(n)
}

// Copy returns what would queue a run again, under a new id. The error is [ErrUnknownRun]. The input is nil if it was
// erased, or if it is one of [Server.AddDataclip].
func (s *Server) Copy(id string) (Run, error) { return s.service.Copy(id) }

// AddCredential sets the body that fetch:credential answers with, for all runs;
// it may be null.
func (s *Server) AddCredential(id string, body json.RawMessage) { s.service.AddCredential(id, body) }

// AddDataclip sets the input of every run whose plan names it as its dataclip_id.
func (s *Server) AddDataclip(id string, body json.RawMessage) { s.service.AddDataclip(id, body) }

// Transcript returns the last frames of all sockets, oldest first.
func (s *Server) Transcript() []Exchange { return s.transcript.Exchanges() }

// RunTranscript returns the frames of a run's topic, both ways, oldest first, as far as they are kept, and whether
// those are all. Tokens and credentials are in them as they went over the wire.
func (s *Server) RunTranscript(id string) (frames []Exchange, whole bool, err error) {
	record, found := s.service.Inspect(id)
	if !found {
		return nil, false, ErrUnknownRun
	}
	frames, whole = s.transcript.Topic("run:"+id, record.EnqueuedAt)
	return frames, whole, nil
}

// Follow returns the frames behind the first n of all sockets, as far as they are still kept, how many
// there were, and a channel that is closed when there are more: it is [Server.Transcript] for who waits for a
// frame. Ask each time with the count of the time before.
func (s *Server) Follow(n int) (news []Exchange, count int, more <-chan struct{}) {
	return s.transcript.Follow(n)
}

// Stats returns the counts.
func (s *Server) Stats() Stats {
	stats := Stats{Sockets: s.endpoint.Sockets(), Faults: s.faults.set.Counts(), Stats: s.service.Stats()}
	if s.extended != nil {
		stats.Extended = s.extended.Counts()
	}
	return stats
}

// TB is what [NewTest] uses of a [testing.TB]. It is named here so that programs which import
// this package do not have package testing linked into them.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Output() io.Writer
}

// NewTest is [Start] for tests: the server listens on a free port of loopback, logs to the
// test unless Config.Logger says otherwise, and is closed when the test ends. A server that cannot start
// ends the test.
func NewTest(t TB, cfg Config) *Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := Start(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Fatalf("close the mock server: %v", err)
		}
	})
	return s
}
