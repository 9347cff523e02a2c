package phxworker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

func TestTheGateIsAskedForEachGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("fast_lane", "f")
		h.enqueue("manual", "m")
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual:1"), Hooks: phxworker.Hooks{Gate: func(_ context.Context, group string) error {
			if group == "manual" {
				return errors.New("no disk")
			}
			return nil
		}}})
		settle(4 * time.Minute)
		require.Equal(t, "started", h.state("f"))
		require.Equal(t, "available", h.state("m"))
		require.Greater(t, worker.Stats().Groups[1].HeldBack, uint64(20))
		require.Zero(t, worker.Stats().Groups[1].Claims.Total())
	})
}

func TestMiddlewareAndTheHookAfterARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a", "b")
		results := make(chan phxworker.RunResult)
		var log bytes.Buffer
		worker, stop := h.hire(phxworker.Config{
			Groups: slots.MustParse("manual:1"),
			Engine: phxworker.Func(func(ctx context.Context, _ *phxworker.Run) (any, error) { return ctx.Value(key{}), nil }),
			Hooks: phxworker.Hooks{Middleware: []phxworker.Middleware{func(next phxworker.ExecuteFunc) phxworker.ExecuteFunc {
				return func(ctx context.Context, run *phxworker.Run) (phxworker.Result, error) {
					return next(context.WithValue(ctx, key{}, map[string]string{"of": run.ID}), run)
				}
			}}, AfterRun: func(result phxworker.RunResult) {
				results <- result
				panic("the hook is broken by hunter22, which is the password of the run")
			}},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		settle(time.Minute)
		for _, id := range []string{"a", "b"} {
			require.Equal(t, 1, worker.Stats().Groups[0].Running, "the slot is still the run's")
			result := <-results
			settle(time.Second)
			require.Equal(t, []string{id, "manual", "success"}, []string{result.RunID, result.Group, string(result.Reason)})
			record, _ := h.server.Inspect(id)
			require.JSONEq(t, `{"of":"`+id+`"}`, string(record.FinalState))
		}
		require.NoError(t, stop())
		require.Contains(t, log.String(), `msg="panic in AfterRun" run_id=a group=manual panic="a string,`)
		require.NotContains(t, log.String(), "hunter22")
		require.Len(t, worker.Stats().Results, 2)
		require.Equal(t, "b", worker.Stats().Results[0].RunID, "the latest first")
	})
}

type key struct{}

// told returns the events so far, without their times.
func told(s *phxworker.Subscription) (events []phxworker.Event) {
	synctest.Wait()
	for {
		select {
		case e, open := <-s.Events():
			if !open {
				return events
			}
			e.At, e.Result = time.Time{}, nil
			events = append(events, e)
		default:
			return events
		}
	}
}

func TestARunThatWasTriedTooOftenIsPoisonous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		var times atomic.Int32
		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Engine: phxworker.Func(func(_ context.Context, run *phxworker.Run) (any, error) {
			require.EqualValues(t, times.Add(1), run.Attempt)
			return nil, phxworker.ErrRequeue
		})}))
		settle(10 * time.Minute)
		record := h.record("a")
		require.Equal(t, []string{"exception", "Poisonous", "this is attempt 4 of at most 3"}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
		require.EqualValues(t, 3, times.Load())
	})
}

// withAdaptor makes a run whose one job needs the adaptor.
func (h *house) withAdaptor(id, adaptor string) {
	h.t.Helper()
	plan := `{"id":"` + id + `","jobs":[{"id":"j","adaptor":"` + adaptor + `","body":""}]}`
	h.put(mockserver.Run{Plan: json.RawMessage(plan), Queue: "manual"})
}

func TestARunIsAcceptedByWhoHasItsAdaptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		common := runner.AcceptAdaptors("@openfn/language-common")
		h.withAdaptor("http", "@openfn/language-http@7.2.10")
		one, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Name: "one", Hooks: phxworker.Hooks{Accept: common}}))
		settle(time.Second)
		h.withAdaptor("common", "@openfn/language-common@3.3.4")
		settle(10 * time.Second)
		require.Equal(t, "started", h.state("common"), "one that it does not want holds up no other")
		require.Positive(t, one.Stats().Delivery.Settled[runner.Returned])
		record := h.record("http")
		require.Equal(t, 1, record.Attempt, "it was never tried")
		require.Zero(t, h.taken("http", "fetch:dataclip")+h.taken("http", "run:start"), "nothing was begun")
		require.Equal(t, "available", string(record.State))

		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Name: "two", Hooks: phxworker.Hooks{Accept: runner.AcceptAdaptors("@openfn/language-http")}}))
		settle(10 * time.Second)
		require.Equal(t, "started", h.state("http"))
		require.Equal(t, "two", h.record("http").WorkerName)
	})
}

// Guards against a run that is called poisonous because nobody wanted it.
func TestARunThatWasNeverTriedIsNotPoisonous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.withAdaptor("http", "@openfn/language-http")
		var log bytes.Buffer
		worker, stop := h.hire(all(phxworker.Config{
			Groups: slots.MustParse("manual:1"), Hooks: phxworker.Hooks{Accept: runner.AcceptAdaptors("@openfn/language-common")}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}))
		settle(time.Hour)
		require.NoError(t, stop())
		require.Equal(t, "available", h.state("http"))
		require.Equal(t, 1, h.record("http").Attempt)
		require.Greater(t, worker.Stats().Delivery.Settled[runner.Returned], uint64(100))
		require.Empty(t, worker.Stats().Ended)
		require.Empty(t, worker.Stats().Results[0].Reason)
		require.Contains(t, log.String(), `msg="run returned to the queue" run_id=http group=manual settled=returned why="the adaptor @openfn/language-http is not for this worker`)
		require.NotContains(t, log.String(), "did not take it")
	})
}

func TestARunThatNobodyWantsMakesTheGroupRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.withAdaptor("http", "@openfn/language-http")
		worker, _ := h.hire(phxworker.Config{
			Groups: slots.MustParse("manual:1"), Extensions: []string{"release"}, Hooks: phxworker.Hooks{Accept: func(context.Context, *phxworker.Run) error { return phxworker.Postpone(time.Millisecond, "") }},
		})
		settle(time.Minute)
		require.Positive(t, worker.Stats().Groups[0].Claims.Exhausted)
		require.Less(t, len(h.sent("run:release")), 20, "not at the speed of the network")
	})
}

func TestAServerThatTakesNothingBackGetsItsRunsExecuted(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := plain(t)
			h.withAdaptor("http", "@openfn/language-http")
			h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Hooks: phxworker.Hooks{Accept: runner.AcceptAdaptors("@openfn/language-common"), RefuseUnsuitable: refuse}}))
			settle(time.Second)
			if !refuse {
				require.Equal(t, "started", h.state("http"))
				return
			}
			require.Equal(t, []string{"exception", "Requeued"}, []string{h.record("http").Reason, h.record("http").ErrorType})
		})
	}
}

func TestAcceptCanEndARun(t *testing.T) {
	tests := []struct {
		name         string
		accept       phxworker.AcceptFunc
		options      string
		kind, starts string
	}{
		{name: "discard", accept: func(context.Context, *phxworker.Run) error { return phxworker.Discard("too old") }, kind: "exception Discarded too old"},
		{name: "error", accept: func(context.Context, *phxworker.Run) error { return errors.New("no idea") }, kind: "exception AcceptError no idea"},
		{name: "panic", accept: func(context.Context, *phxworker.Run) error { panic("no") }, kind: "crash Panic panic: no"},
		{name: "deadline", options: `,"options":{"deadline_ms":946684800000}`, kind: "exception Discarded its deadline passed at 2000-01-01T00:00:00Z"},
		{name: "deadline to come", options: `,"options":{"deadline_ms":946685800000}`, kind: "success  "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				time.Sleep(time.Second)
				h.put(mockserver.Run{Plan: json.RawMessage(`{"id":"a","jobs":[{"id":"j"}]` + tt.options + `}`)})
				h.hire(phxworker.Config{Hooks: phxworker.Hooks{Accept: tt.accept}, Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, nil })})
				settle(time.Minute)
				record := h.record("a")
				require.Equal(t, tt.kind, record.Reason+" "+record.ErrorType+" "+record.ErrorMessage)
			})
		})
	}
}

// Guards against a run that is stopped while the hook has it, and is reported as what the hook made of that, or as one
// that is not for this worker.
func TestARunThatIsStoppedWhileItIsAcceptedIsCancelled(t *testing.T) {
	hooks := map[string]phxworker.AcceptFunc{
		"a hook that heeds its context": func(ctx context.Context, _ *phxworker.Run) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"a hook that does not": func(context.Context, *phxworker.Run) error {
			time.Sleep(30 * time.Second)
			return nil
		},
	}
	for name, accept := range hooks {
		for _, how := range []string{"RunCancelled", "WorkerStopped"} {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := openHouse(t, quiet)
					h.enqueue("manual", "a")
					worker, stop := h.hire(phxworker.Config{Extensions: []string{}, Hooks: phxworker.Hooks{Accept: accept, RefuseUnsuitable: true}})
					settle(time.Second)
					if how == "RunCancelled" {
						require.NoError(t, worker.Cancel("a"))
					} else {
						worker.Abort()
						require.ErrorIs(t, stop(), phxworker.ErrAborted)
					}
					settle(time.Minute) // until the hook has returned as well
					record, _ := h.server.Inspect("a")
					require.Equal(t, []string{"cancel", how}, []string{record.Reason, record.ErrorType})
				})
			})
		}
	}
}

// looking is a log that looks at the worker over each line.
type looking struct {
	worker atomic.Pointer[phxworker.Worker]
}

func (l *looking) Enabled(context.Context, slog.Level) bool { return true }
func (l *looking) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *looking) WithGroup(string) slog.Handler            { return l }
func (l *looking) Handle(context.Context, slog.Record) error {
	if worker := l.worker.Load(); worker != nil {
		worker.Stats()
	}
	return nil
}

// Guards against a lock that is held while something is logged.
func TestALoggerMayLookAtTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		for i := range 100 { // one more than a socket carries
			h.enqueue("manual", fmt.Sprint("m", i))
		}
		var log looking
		worker, stop := h.hireWith(phxworker.Config{Groups: slots.MustParse("manual:100"), Logger: slog.New(&log)}, func(w *phxworker.Worker) { log.worker.Store(w) })
		settle(10 * time.Second)
		require.Equal(t, 2, worker.Stats().Connection.Sockets)
		require.NoError(t, worker.Cancel("m0"))
		settle(time.Second)
		require.Equal(t, "cancelled", h.state("m0"))
		worker.Abort()
		require.ErrorIs(t, stop(), phxworker.ErrAborted)
	})
}
