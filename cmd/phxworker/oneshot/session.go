// Package oneshot executes workflows one at a time, for whoever writes them: a worker and the queue that
// it claims from are in one process, and everything between them is as in production.
package oneshot

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/slots"
)

// Run is what to execute.
type Run struct {
	// Plan is the plan as a server has it; its id is the run's.
	ID   string
	Plan json.RawMessage
	// Input is the run's dataclip. Defaults to none.
	Input json.RawMessage
	// Credentials are their bodies, by id.
	Credentials map[string]json.RawMessage
}

// Session is a queue and its worker. It executes any number of runs, one at a time.
type Session struct {
	server *mockserver.Server
	cfg    phxworker.Config
	worker *phxworker.Worker
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // of the worker, once ended is closed
}

// Open starts a session. The engine is the caller's; what the worker logs goes to log. It must be
// closed.
func Open(engine phxworker.Engine, limits phxworker.Limits, log *slog.Logger) (*Session, error) {
	server, err := mockserver.Start(mockserver.Config{
		WakeDebounce: -1, TranscriptLimit: -1, KeepRuns: 1,
		RunTimeout: limits.WithDefaults().RunTimeout, // a run must end before its token does
	})
	if err != nil {
		return nil, err
	}
	s := &Session{server: server, cfg: phxworker.Config{
		URL: server.URL(), Secret: server.Secret(), PublicKey: server.PublicKey(),
		Engine: engine, Groups: slots.MustParse("*:1"), Limits: limits, Logger: log,
	}}
	if err := s.hire(); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return s, nil
}

// hire starts a worker.
func (s *Session) hire() (err error) {
	if s.worker, err = phxworker.New(s.cfg); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	s.stop, s.ended = stop, ended
	go func() {
		defer close(ended)
		s.err = s.worker.Run(ctx)
	}()
	return nil
}

// Close stops the worker and its queue.
func (s *Session) Close() {
	s.stop()
	<-s.ended
	_ = s.server.Close() // nobody else is there
}

// Doubts returns what in the plan of a run can hardly mean what it says, a sentence each; nil if there is nothing. It may
// be executed all the same.
func (s *Session) Doubts(run Run) []string {
	return s.server.Doubts(mockserver.Run{Plan: run.Plan, Dataclip: run.Input, Credentials: run.Credentials})
}

// poll is how often the queue is asked what is new. The eye sees nothing faster.
const poll = 10 * time.Millisecond

// Execute returns what the queue knows of a run once it is over, and hands each event of it to show as it comes. When ctx
// ends, the run is cancelled. The error says why it could not be executed at all.
func (s *Session) Execute(ctx context.Context, run Run, show func(mockserver.Event)) (mockserver.RunRecord, error) {
	if unable := s.worker.Stats().Unable; len(unable) > 0 && !unable[0].Pending {
		// It waits before it tries again, for a queue of many runs; here somebody waits for this one.
		s.stop()
		<-s.ended
		if err := s.hire(); err != nil {
			return mockserver.RunRecord{}, err
		}
	}
	_, err := s.server.Enqueue(mockserver.Run{Plan: run.Plan, Dataclip: run.Input, Credentials: run.Credentials})
	if err != nil {
		return mockserver.RunRecord{}, err
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for shown := 0; ; {
		events, over := s.server.EventsAfter(run.ID, shown)
		for _, e := range events {
			show(e)
		}
		shown += len(events)
		if over {
			record, _ := s.server.Inspect(run.ID) // it keeps the last run
			return record, nil
		}
		if ctx.Err() != nil {
			s.cancel(run.ID)
		}
		select {
		case <-ticker.C:
		case <-s.ended:
			return mockserver.RunRecord{}, s.err
		}
	}
}

// cancel ends a run wherever it is. It is tried again as long as the run goes on: between queue and worker a run is with
// neither.
func (s *Session) cancel(run string) {
	if s.worker.Cancel(run) != nil {
		_ = s.server.Cancel(run, "interrupted") // it waits no more, or the worker has it: the next try tells
	}
}
