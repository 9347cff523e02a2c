package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner/delivery"
	"github.com/phxworker/phxworker/runner/terms"
)

// takesBack is a queue that takes runs back, and leaves their topics open.
type takesBack struct {
	refuses  error
	released []terms.Release
}

func (q *takesBack) TakesBack() (yes, known bool) { return true, true }

func (q *takesBack) Release(_ context.Context, r terms.Release) error {
	q.released = append(q.released, r)
	return q.refuses
}

// Guards against a run that is reported after it was returned, or whose slot is
// held until the server closes its topic.
func TestARunThatWasGivenBackIsOver(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		queue := &takesBack{}
		begin := time.Now()
		outcome := w.run(Config{Releaser: queue, Engine: Func(func(_ context.Context, run *Run) (any, error) {
			run.Print("so far")
			return nil, fmt.Errorf("the mill is closed: %w", ErrRequeue)
		})}, planOf(""))
		require.NoError(t, outcome.Err)
		require.Equal(t, Requeued, outcome.Settled)
		require.Zero(t, time.Since(begin))
		require.Len(t, queue.released, 1)
		require.Equal(t, []any{"r1", terms.ReleaseRequeue, requeueDelay.Milliseconds()}, []any{queue.released[0].ID, queue.released[0].Reason, queue.released[0].DelayMS})
		require.Equal(t, []string{"so far"}, w.logged("r1"))
		require.Zero(t, w.pushes("r1", "run:complete"))
	})
}

// Guards against a run that is said to have come to nothing, and whose slot counts as one of a
// run that finished, though another worker gets it.
func TestARunThatIsGivenAnewGoesBackUnlessItIsTheSame(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		queue, end, done := &takesBack{}, make(chan struct{}), make(chan Outcome)
		id, token := w.claim(planOf(""))
		r := New(Config{Releaser: queue, Engine: Func(func(context.Context, *Run) (any, error) { <-end; return nil, nil })})
		run := func(token string) Outcome {
			return r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		}
		go func() { done <- run(token) }()
		synctest.Wait()
		same, anew := run(token), run("another")
		close(end)
		require.Equal(t, Processed, (<-done).Settled)
		require.ErrorIs(t, same.Err, ErrTwice)
		require.ErrorIs(t, anew.Err, ErrTwice)
		require.Equal(t, []Settlement{Unsettled, Returned}, []Settlement{same.Settled, anew.Settled})
		require.Equal(t, map[Settlement]uint64{Processed: 1, Returned: 1}, r.Stats().Settled)
		require.Equal(t, []terms.Release{{ID: id, Token: "another", Reason: terms.ReleasePostpone, DelayMS: requeueDelay.Milliseconds()}}, queue.released)
	})
}

func TestARunThatIsNotTakenBackIsReported(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		outcome := w.run(Config{
			Releaser: &takesBack{refuses: errors.New("no")},
			Engine:   Func(func(context.Context, *Run) (any, error) { return nil, ErrRequeue }),
		}, planOf(""))
		require.NoError(t, outcome.Err)
		require.Equal(t, Processed, outcome.Settled)
		require.Equal(t, "Requeued", w.result("r1").ErrorType)
	})
}

// Only a wish to give a run back is a reason for it.
func TestWhatIsToBeReportedIsNotGivenBack(t *testing.T) {
	for _, err := range []error{nil, errors.New("no stock"), Discard("not ours"), Poison("kills workers")} {
		onWire(t, func(t *testing.T, w *wire) {
			queue := &takesBack{}
			w.run(Config{Releaser: queue, Engine: Func(func(context.Context, *Run) (any, error) { return nil, err })}, planOf(""))
			require.Empty(t, queue.released)
			require.Equal(t, 1, w.pushes("r1", "run:complete"))
		})
	}
}

// Guards against a run that goes back without its lines, or that waits for them in
// vain, when its topic has ended.
func TestARunWhoseTopicHasEndedIsNotGivenBack(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "run:log", Action: fault.Drop, When: fault.Before})
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`)})
		queue, dir, begin := &takesBack{}, t.TempDir(), time.Now()
		outcome := New(Config{Releaser: queue, Delivery: delivery.Config{Spool: dir}, Engine: Func(func(_ context.Context, run *Run) (any, error) {
			run.Print("so far")
			return nil, ErrRequeue
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.Equal(t, Undelivered, outcome.Settled)
		require.Less(t, time.Since(begin), 30*time.Second)
		require.Empty(t, queue.released)
		spooled, err := readSpool(dir)
		require.NoError(t, err)
		require.Len(t, spooled, 1)
		require.Equal(t, "run:log", spooled[0].Events[0].Event)
		require.Positive(t, spooled[0].Delivered)
	})
}

func TestARunIsGivenBackByWhoCannotPrepareIt(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		queue := &takesBack{}
		outcome := w.run(Config{Releaser: queue, Engine: preparing{Func: success, prepare: func(context.Context, *Run) (Versions, error) {
			return nil, Postpone(time.Hour, "the register is closed")
		}}}, planOf(""))
		require.Equal(t, Postponed, outcome.Settled)
		require.Equal(t, "the register is closed", outcome.Message)
		require.Len(t, queue.released, 1)
		require.Equal(t, []any{terms.ReleasePostpone, time.Hour.Milliseconds()}, []any{queue.released[0].Reason, queue.released[0].DelayMS})
	})
}

// Guards against a run that ends as an exception because its engine reckoned until when it is to wait, and that is
// over: a server refuses a delay below zero, and the run with it.
func TestADelayThatIsOverIsNone(t *testing.T) {
	for want, wish := range map[time.Duration]error{requeueDelay: Requeue(-time.Second, "busy"), 0: Postpone(-time.Second, "busy")} {
		onWire(t, func(t *testing.T, w *wire) {
			queue := &takesBack{}
			outcome := w.run(Config{Releaser: queue, Engine: Func(func(context.Context, *Run) (any, error) { return nil, wish })}, planOf(""))
			require.True(t, outcome.Settled.InQueue())
			require.Equal(t, want.Milliseconds(), queue.released[0].DelayMS)
		})
	}
}

// refusing is a queue that takes its time to say that it does not take a run back.
type refusing struct{ after time.Duration }

func (q refusing) TakesBack() (yes, known bool) { return true, true }

func (q refusing) Release(context.Context, terms.Release) error {
	time.Sleep(q.after)
	return &channel.RefusedError{Topic: "worker:queue", Event: "run:release", Response: json.RawMessage(`{"reason":"not_claimed"}`)}
}

// The server's own word, that it has not taken the run back, counts more
// than the end of the topic.
func TestARefusedReleaseIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(t, mockserver.Config{Mode: mockserver.Extended, Lease: time.Minute})
		require.NoError(t, w.queue.Leave(t.Context()))
		var err error
		w.queue, err = w.socket.Join(t.Context(), "worker:queue", json.RawMessage(`{"capacity":1,"extensions":{"lease":1}}`))
		require.NoError(t, err)
		id, token := w.claim(planOf(""))
		outcome := New(Config{
			Releaser: refusing{after: 20 * time.Second}, Extensions: extension.NewSet(slog.New(slog.DiscardHandler), "lease"),
			Engine: Func(func(context.Context, *Run) (any, error) {
				time.Sleep(50 * time.Second)
				return nil, ErrRequeue
			}),
		}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		record, _ := w.server.Inspect(id)
		require.Equal(t, "lease_expired", string(record.Owners[0].End))
		require.NotEqual(t, Requeued, outcome.Settled)
	})
}

// clinic is told how an engine does.
type clinic struct {
	noHost

	able   int
	unable []string
	waits  time.Duration
	heals  bool
}

func (c *clinic) Able(time.Time) { c.able++ }

func (c *clinic) Unable(cause error) { c.unable = append(c.unable, cause.Error()) }

func (c *clinic) AwaitEngine(ctx context.Context) error {
	if !c.heals {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(c.waits)
	return nil
}

var errFullDisk = &Failure{Reason: Exception, Type: "EngineError", Message: "the disk is full\nmore of it"}

// An engine that is ill is no fault of the run: the run goes back where that can be, and
// the worker is told either way.
func TestARunThatTheEngineWasNotAbleToExecute(t *testing.T) {
	unable := Func(func(context.Context, *Run) (any, error) { return nil, Unable(errFullDisk) })
	for _, releaser := range []*takesBack{nil, {}} {
		onWire(t, func(t *testing.T, w *wire) {
			health := &clinic{}
			cfg := Config{Engine: unable}
			if releaser != nil {
				cfg.Releaser = releaser
			}
			outcome := w.runFor(health, cfg, planOf(""))
			require.Equal(t, []string{"the disk is full"}, health.unable, "a line of it")
			require.Zero(t, health.able)
			if releaser != nil {
				require.Equal(t, Requeued, outcome.Settled)
				require.Len(t, releaser.released, 1)
				return
			}
			require.Equal(t, Processed, outcome.Settled)
			require.Equal(t, []string{"exception", "EngineError", errFullDisk.Message}, []string{w.result("r1").Reason, w.result("r1").ErrorType, w.result("r1").ErrorMessage})
		})
	}
}

// A run that could not be prepared waits until it can be, for as long as it might have taken.
func TestARunThatTheEngineWasNotAbleToPrepareWaits(t *testing.T) {
	for _, heals := range []bool{true, false} {
		onWire(t, func(t *testing.T, w *wire) {
			health := &clinic{heals: heals, waits: time.Minute}
			tries := 0
			begin := time.Now()
			outcome := w.runFor(health, Config{Engine: preparing{Func: success, prepare: func(context.Context, *Run) (Versions, error) {
				if tries++; tries < 3 {
					return nil, Unable(errFullDisk)
				}
				return nil, nil
			}}}, planOf(""))
			require.NoError(t, outcome.Err)
			if heals {
				require.Equal(t, "success", w.result("r1").Reason)
				require.Equal(t, 1, health.able)
				require.Len(t, health.unable, 2)
				return
			}
			require.Equal(t, "EngineError", w.result("r1").ErrorType)
			require.Equal(t, 5*time.Minute, time.Since(begin), "the run's limit")
			require.Zero(t, health.able)
		})
	}
}

func TestAnEngineShowsThatItIsAble(t *testing.T) {
	for name, engine := range map[string]Engine{
		"a step":    Func(twoSteps),
		"an end":    Func(success),
		"a failure": Func(func(context.Context, *Run) (any, error) { return nil, errors.New("no") }),
		"a plan that cannot be prepared": preparing{Func: success, prepare: func(context.Context, *Run) (Versions, error) {
			return nil, &Failure{Reason: Crash, Type: "CompileError", Message: "no"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				health := &clinic{}
				w.runFor(health, Config{Engine: engine}, planOf(""))
				require.Equal(t, 1, health.able)
				require.Empty(t, health.unable)
			})
		})
	}
}

// Guards against a registry that accepts and never answers: each run that needs it is killed
// by its own limit, and nothing would say that the worker is ill.
func TestAPreparationThatTakesAllTheTimeOfARun(t *testing.T) {
	for limit, unable := range map[time.Duration]int{30 * time.Second: 1, time.Second: 0} {
		onWire(t, func(t *testing.T, w *wire) {
			health := &clinic{}
			w.runFor(health, Config{Limits: Limits{RunTimeout: limit}, Engine: preparing{prepare: func(ctx context.Context, _ *Run) (Versions, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}}, planOf(""))
			require.Equal(t, "TimeoutError", w.result("r1").ErrorType)
			require.Len(t, health.unable, unable)
			require.Zero(t, health.able)
		})
	}
}

// Guards against a delay that no server takes: the run would be told to have been refused by it.
func TestADelayBeyondAYearIsTheEnginesMistake(t *testing.T) {
	for name, ask := range map[string]func(time.Duration, string) error{"postponed": Postpone, "requeued": Requeue} {
		onWire(t, func(t *testing.T, w *wire) {
			back := &takesBack{}
			w.run(Config{Releaser: back, Engine: Func(func(context.Context, *Run) (any, error) {
				return nil, ask(366*24*time.Hour, "later")
			})}, planOf(""))
			require.Empty(t, back.released)
			require.Equal(t, "The run was to be "+name+" for 8784h0m0s: a year is the most (later)", w.result("r1").ErrorMessage)
		})
	}
}
