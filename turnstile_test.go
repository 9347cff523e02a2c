package phxworker_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// frail is an engine that is not able to execute runs until it is mended.
type frail struct {
	mended  atomic.Bool
	prepare bool          // it finds out as it prepares them
	after   time.Duration // it finds that out so late
	checks  atomic.Int32
	problem error // of a check
}

var errFullDisk = &phxworker.Failure{Reason: runner.Exception, Type: "EngineError", Message: "no space left in /repo"}

func (f *frail) wreck() error {
	time.Sleep(f.after)
	if f.mended.Load() {
		return nil
	}
	return runner.Unable(errFullDisk)
}

func (f *frail) Prepare(context.Context, *phxworker.Run) (phxworker.Execution, error) {
	if f.prepare {
		return idle, f.wreck()
	}
	return phxworker.Prepared(nil, func(context.Context) (phxworker.Result, error) { return phxworker.Result{}, f.wreck() }), nil
}

// idle is an execution that does nothing.
var idle = phxworker.Prepared(nil, func(context.Context) (phxworker.Result, error) { return phxworker.Result{}, nil })

// checked is one that can be asked.
type checked struct{ *frail }

func (c checked) Check(context.Context) error {
	c.checks.Add(1)
	if c.mended.Load() {
		return nil
	}
	return c.problem
}

// manyRuns returns the ids of runs that wait.
func manyRuns(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint("r", i))
	}
	return ids
}

// ended counts the runs by their state.
func ended(h *house, ids []string) map[string]int {
	states := make(map[string]int)
	for _, id := range ids {
		states[h.state(id)]++
	}
	return states
}

// Guards against a worker that eats the queue because it cannot execute anything.
func TestAWorkerThatCannotExecuteStopsClaiming(t *testing.T) {
	for name, f := range map[string]*frail{
		"at once": {}, "late": {after: 400 * time.Millisecond},
	} {
		pools := []string{"manual:50", "fast_lane:2 manual>*:50", "manual:20 manual>default:20 *:20"}
		if testing.Short() {
			pools = pools[2:]
		}
		for _, groups := range pools {
			for _, all := range []bool{false, true} {
				t.Run(fmt.Sprint(name, ", ", groups, ", ", all), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := &frail{after: f.after}
						h := openHouse(t, quiet)
						ids := manyRuns(61)
						h.enqueue("manual", ids...)
						var log bytes.Buffer
						worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse(groups), Engine: f, Claim: phxworker.Claim{DemandAll: all}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
						settle(4*time.Second + f.after)
						lost := ended(h, ids)["exception"]
						require.Positive(t, lost)
						require.LessOrEqual(t, lost, 3)
						broken := worker.Stats().Unable[0]
						require.Equal(t, phxworker.BreakerEngine, broken.Name)
						require.Equal(t, "no space left in /repo", broken.Error)

						settle(10 * time.Minute) // 5, 10, 20, 40, 80, 160 s
						more := ended(h, ids)["exception"] - lost
						require.LessOrEqual(t, more, 6, "one a trial")
						require.Positive(t, more)
						lost += more

						f.mended.Store(true)
						settle(20 * time.Minute)
						require.Equal(t, map[string]int{"exception": lost, "success": 61 - lost}, ended(h, ids))
						require.Empty(t, unable(worker))
						require.NoError(t, stop())
						require.Equal(t, 1, strings.Count(log.String(), "no more claims: the engine cannot execute runs"))
						require.Equal(t, 1, strings.Count(log.String(), "claims are made again"))
					})
				})
			}
		}
	}
}

func TestNoRunIsLostToAnEngineWhereTheServerTakesRunsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		ids := manyRuns(61)
		h.enqueue("manual", ids...)
		f := checked{&frail{}}
		worker, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:50"), Engine: f, MaxAttempts: -1}))
		settle(10 * time.Minute)
		require.Equal(t, map[string]int{"available": 61}, ended(h, ids))
		require.NotEmpty(t, unable(worker))
		f.mended.Store(true)
		settle(20 * time.Minute)
		require.Equal(t, map[string]int{"success": 61}, ended(h, ids))
	})
}

// A check costs no run: as long as it fails, none is tried.
func TestAnEngineThatCanBeAskedIsTriedWhenItSaysThatItIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		ids := manyRuns(61)
		f := checked{&frail{}}
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual:50"), Engine: f})
		feed := worker.Subscribe(100)
		settle(time.Second)
		require.EqualValues(t, 1, f.checks.Load(), "before the first claim")
		f.problem = errors.New("npm does not answer")
		h.enqueue("manual", ids...)
		settle(time.Hour)
		lost := ended(h, ids)["exception"]
		require.LessOrEqual(t, lost, 3)
		require.Greater(t, f.checks.Load(), int32(10))
		require.Equal(t, "npm does not answer", unable(worker))
		_, err := worker.Claim(t.Context())
		require.ErrorIs(t, err, phxworker.ErrUnable)
		f.mended.Store(true)
		settle(10 * time.Minute)
		require.Equal(t, map[string]int{"exception": lost, "success": 61 - lost}, ended(h, ids))

		var kinds []string
		for len(feed.Events()) > 0 {
			if e := <-feed.Events(); e.Kind == phxworker.EventUnable || e.Kind == phxworker.EventAble {
				kinds = append(kinds, string(e.Kind))
			}
		}
		require.Equal(t, []string{"unable", "able"}, kinds)
	})
}

func TestTheFirstCheckComesBeforeTheFirstClaim(t *testing.T) {
	t.Run("it does not pass for now", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := openHouse(t, quiet)
			h.enqueue("manual", "a")
			f := checked{&frail{problem: errors.New("npm does not answer")}}
			worker, _ := h.hire(phxworker.Config{Engine: f})
			settle(time.Hour)
			require.Empty(t, h.sent("claim"))
			require.NotEmpty(t, joinsOf(h), "the join does not wait for it")
			require.Equal(t, "npm does not answer", unable(worker))
			f.mended.Store(true)
			settle(6 * time.Minute)
			require.Equal(t, "success", h.state("a"))
		})
	})
	t.Run("it never will", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := openHouse(t, quiet)
			h.enqueue("manual", "a")
			problem := &fs.PathError{Op: "open", Path: "/repo", Err: fs.ErrPermission}
			_, stop := h.hire(phxworker.Config{Engine: checked{&frail{problem: problem}}})
			settle(time.Minute)
			err := stop()
			require.ErrorIs(t, err, phxworker.ErrUnable)
			require.ErrorIs(t, err, fs.ErrPermission)
			require.Empty(t, h.sent("claim"))
		})
	})
	t.Run("the worker is stopped meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := openHouse(t, quiet)
			_, stop := h.hire(phxworker.Config{Engine: patient{Func: h.gate.hold}})
			settle(time.Minute)
			require.NoError(t, stop())
		})
	})
}

// patient is an engine whose check takes its time.
type patient struct{ phxworker.Func }

func (patient) Check(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Runs that began before the disk was full say nothing of the time since.
func TestAnOldRunThatEndsWellProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "old")
		var full atomic.Bool
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual:5"), Engine: phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) {
			if full.Load() {
				return nil, runner.Unable(errFullDisk)
			}
			return h.gate.hold(ctx, run)
		})})
		settle(time.Minute)
		full.Store(true)
		h.enqueue("manual", "new")
		settle(11 * time.Second)
		require.NotEmpty(t, unable(worker))
		h.gate.release("old")
		settle(time.Second)
		require.Equal(t, "success", h.state("old"))
		require.NotEmpty(t, unable(worker))
	})
}

// Guards against runs that are lost to an engine which could not prepare them, though
// nothing had been reported of them yet: they wait until it is well, and so does the queue.
func TestRunsThatCouldNotBePreparedWait(t *testing.T) {
	for name, f := range map[string]func() phxworker.Engine{
		"asked by a run":   func() phxworker.Engine { return &frail{prepare: true} },
		"asked by a check": func() phxworker.Engine { return checked{&frail{prepare: true}} },
	} {
		for _, proven := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", busy before: ", proven), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := openHouse(t, quiet)
					engine := f()
					ill := engine.(interface{ set(mended bool) })
					ids := manyRuns(61)
					worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:50"), Engine: engine})
					if proven {
						ill.set(true)
						h.enqueue("manual", "before")
						settle(11 * time.Second)
						require.Equal(t, "success", h.state("before"))
						ill.set(false)
					}
					h.enqueue("manual", ids...)
					settle(4 * time.Minute)
					states := ended(h, ids)
					require.Zero(t, states["exception"])
					if !proven {
						require.LessOrEqual(t, states["claimed"], 3)
					}
					require.NotEmpty(t, unable(worker))
					ill.set(true)
					settle(4 * time.Minute)
					require.Equal(t, 61, ended(h, ids)["success"], "%v", ended(h, ids))
					require.Empty(t, unable(worker))
					require.NoError(t, stop())
				})
			})
		}
	}
}

func (f *frail) set(mended bool) { f.mended.Store(mended) }

// Guards against runs that wait for ever for a trial which was cancelled.
func TestATrialThatIsCancelledIsNoEndOfTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a", "b")
		f := &hanging{trials: make(chan string, 1)}
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual:2"), Engine: f})
		settle(4 * time.Second)
		require.Equal(t, 2, ended(h, []string{"a", "b"})["claimed"])
		f.hangs.Store(true)
		require.NoError(t, worker.Cancel(<-f.trials))
		f.hangs.Store(false)
		f.mended.Store(true)
		settle(2 * time.Minute)
		require.Equal(t, map[string]int{"cancelled": 1, "success": 1}, ended(h, []string{"a", "b"}))
	})
}

// hanging is an engine that may hang as it prepares a run.
type hanging struct {
	mended, hangs atomic.Bool
	trials        chan string
}

func (f *hanging) Prepare(ctx context.Context, run *phxworker.Run) (phxworker.Execution, error) {
	switch {
	case f.mended.Load():
		return idle, nil
	case f.hangs.Load():
		f.trials <- run.ID
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(time.Second) // until all runs are claimed: none is after the first that fails
	return nil, runner.Unable(errFullDisk)
}

// Guards against claims that are held back for ever though the engine works: runs fail, and
// that is all that there is to see of it.
func TestRunsThatFailProveThatTheEngineWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		ids := manyRuns(300)
		h.enqueue("manual", ids...)
		var now, most atomic.Int32
		h.hire(phxworker.Config{Groups: slots.MustParse("manual:50"), Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(90 * time.Millisecond)
			return nil, errors.New("the job's own fault")
		})})
		settle(10 * time.Second)
		require.Equal(t, map[string]int{"failed": 300}, ended(h, ids))
		require.EqualValues(t, 50, most.Load())
	})
}

// Guards against a group that waits for the slow preparations of another.
func TestASlowPreparationHoldsNoOtherGroupBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		slow := &slowly{}
		slow.takes.Store(int64(4 * time.Minute))
		h.enqueue("manual", "a", "b", "c")
		h.hire(phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual>*:20"), Engine: slow})
		settle(20 * time.Second)
		slow.takes.Store(0)
		h.enqueue("fast_lane", "quick")
		settle(12 * time.Second) // a back-off
		require.Equal(t, "success", h.state("quick"))
	})
}

// A run that was claimed ahead shows that the engine is well, too: what waits for that hears of it.
func TestARunThatWasClaimedAheadProvesTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "slow")
		h.hire(all(phxworker.Config{
			Groups: slots.MustParse("fast_lane:1 manual:2"), Engine: slowStart{h.gate}, Claim: phxworker.Claim{Prefetch: true},
		}))
		settle(time.Second)
		h.enqueue("fast_lane", "first")
		settle(time.Minute) // no claim waits at the server any more but for fast_lane
		h.enqueue("fast_lane", "ahead")
		h.enqueue("manual", "next")
		settle(5 * time.Second)
		require.Equal(t, "available", h.state("next"), "the engine has shown nothing of late")
		h.gate.release("first")
		settle(2 * time.Second)
		require.Equal(t, "started", h.state("ahead"))
		require.Equal(t, "started", h.state("next"))
	})
}

// slowStart is an engine that prepares the run "slow" for minutes.
type slowStart struct{ gate *gate }

func (s slowStart) Prepare(ctx context.Context, run *phxworker.Run) (phxworker.Execution, error) {
	if run.ID == "slow" {
		time.Sleep(4 * time.Minute)
	}
	return phxworker.Func(s.gate.hold).Prepare(ctx, run)
}

// Guards against a worker that falls with the check of its engine, or waits for it for ever.
func TestACheckThatPanicsOrHangs(t *testing.T) {
	for name, check := range map[string]func(context.Context) error{
		"panics": func(context.Context) error { panic("oh") },
		"hangs":  func(ctx context.Context) error { <-ctx.Done(); return errors.New("cut off") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				h.enqueue("manual", "a")
				worker, stop := h.hire(phxworker.Config{Engine: odd{Func: func(context.Context, *phxworker.Run) (any, error) { return nil, nil }, check: check}})
				settle(10 * time.Minute)
				require.Contains(t, unable(worker), "the engine")
				require.Equal(t, "available", h.state("a"))
				require.NoError(t, stop())
			})
		})
	}
}

// odd is an engine with a check of the test's.
type odd struct {
	phxworker.Func

	check func(context.Context) error
}

func (o odd) Check(ctx context.Context) error { return o.check(ctx) }

type slowly struct{ takes atomic.Int64 }

func (s *slowly) Prepare(context.Context, *phxworker.Run) (phxworker.Execution, error) {
	time.Sleep(time.Duration(s.takes.Load()))
	return idle, nil
}

// An idle worker with many groups, whose claims wait at the server, leaves none of them out.
func TestNoGroupWaitsForTheClaimsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.hire(all(phxworker.Config{Groups: slots.MustParse("a:9 b:9 c:9 d:9 e:9"), Claim: phxworker.Claim{DemandAll: true}}))
		settle(time.Second)
		for _, queue := range []string{"a", "b", "c", "d", "e"} {
			require.Len(t, h.claimsOf(queue), 1, queue)
		}
		h.enqueue("e", "run")
		settle(0)
		require.Equal(t, "started", h.state("run"))
	})
}

// signed is a server that signs its runs, and wakes nobody.
var signed = mockserver.Config{WakeDebounce: 24 * time.Hour}

// strangersKey is the public key of another server.
func strangersKey(t *testing.T) string {
	t.Helper()
	stranger, err := mockserver.New(mockserver.Config{})
	require.NoError(t, err)
	defer stranger.Close()
	return stranger.PublicKey()
}

// Guards against a worker that drops every run of the queue because its key does not fit.
func TestAKeyThatDoesNotFit(t *testing.T) {
	for name, server := range map[string]mockserver.Config{"another key": signed, "tokens that are not signed": quiet} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, server)
				ids := manyRuns(30)
				h.enqueue("manual", ids...)
				var log bytes.Buffer
				worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual>*:9"), PublicKey: strangersKey(t), Logger: slog.New(slog.NewTextHandler(&log, nil))})
				settle(50 * time.Second)
				require.Equal(t, 29, ended(h, ids)["available"], "one is enough to know")
				broken := worker.Stats().Unable[0]
				require.Equal(t, phxworker.BreakerKey, broken.Name)
				require.Contains(t, broken.Error, "WORKER_LIGHTNING_PUBLIC_KEY")
				_, err := worker.Claim(t.Context())
				require.ErrorIs(t, err, phxworker.ErrUnable)

				settle(3 * time.Hour) // 1, 2, 4, 8, 16, 30, 30 … minutes
				require.InDelta(t, 30-10, ended(h, ids)["available"], 1, "one a trial")
				require.NoError(t, stop())
				require.Equal(t, 1, strings.Count(log.String(), "no more claims: the tokens of runs cannot be verified"))
				require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), log.String())
				require.NotContains(t, log.String(), "eyJ", "no token may reach a log")
				require.Empty(t, h.sent("run:start"))
			})
		})
	}
}

// Guards against a worker that empties the queue of a server which lets it onto no run's topic, or takes the end of no
// run, and says meanwhile that it is ready.
func TestAServerThatTakesNoRunsIsAskedForNone(t *testing.T) {
	for name, refusal := range map[string]fault.Rule{
		"no run is let in": {Topic: "run:*", Event: fault.Join, Response: []byte(`{"reason":"unauthorized"}`)},
		"no end is taken":  {Event: "run:complete", Response: []byte(`{"state":["is invalid"]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				ids := manyRuns(40)
				h.enqueue("manual", ids...)
				refusal.Action, refusal.Count = fault.Refuse, -1
				id, err := h.server.AddFault(refusal)
				require.NoError(t, err)
				var log bytes.Buffer
				worker, stop := h.hire(phxworker.Config{
					Groups: slots.MustParse("manual:5"), Logger: slog.New(slog.NewTextHandler(&log, nil)),
					Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, nil }),
				})
				settle(50 * time.Second)
				require.GreaterOrEqual(t, ended(h, ids)["available"], 40-3-5, "three are enough to know; as many as there are slots are under way by then")
				broken := worker.Stats().Unable[0]
				require.Equal(t, phxworker.BreakerServer, broken.Name)
				before := ended(h, ids)["available"]

				settle(3 * time.Hour) // 1, 2, 4, 8, 16, 30, 30 … minutes
				require.InDelta(t, before-10, ended(h, ids)["available"], 1, "one a trial")
				require.NotEmpty(t, worker.Stats().Unable)

				require.True(t, h.server.RemoveFault(id))
				left := ended(h, ids)["available"]
				settle(time.Hour)
				require.Equal(t, left, ended(h, ids)["success"])
				require.Empty(t, unable(worker))
				require.NoError(t, stop())
				require.Equal(t, 1, strings.Count(log.String(), "no more claims: the server does not take the runs of this worker"))
				require.Equal(t, 1, strings.Count(log.String(), "claims are made again"))
			})
		})
	}
}

// Guards against a worker that says it claims again while another breaker keeps it from that.
func TestAWorkerIsAbleOnceNothingKeepsItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		ids := manyRuns(4)
		for _, id := range ids[1:] {
			_, err := h.server.AddFault(fault.Rule{Run: id, Event: fault.Join, Action: fault.Refuse, Response: []byte(`{"reason":"not_found"}`)})
			require.NoError(t, err)
		}
		h.enqueue("manual", ids...)
		var log bytes.Buffer
		var feed *phxworker.Subscription
		worker, _ := h.hireWith(phxworker.Config{
			Groups: slots.MustParse("manual:2"), Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) {
				time.Sleep(40 * time.Second)
				return nil, runner.Unable(errFullDisk)
			}),
		}, func(w *phxworker.Worker) { feed = w.Subscribe(100) })
		settle(30 * time.Second)
		require.Equal(t, phxworker.BreakerServer, worker.Stats().Unable[0].Name)
		settle(11 * time.Second) // the server takes the end of the run over which the engine fails
		require.Len(t, worker.Stats().Unable, 1)
		require.Equal(t, phxworker.BreakerEngine, worker.Stats().Unable[0].Name)
		for len(feed.Events()) > 0 {
			require.NotEqual(t, phxworker.EventAble, (<-feed.Events()).Kind)
		}
		require.NotContains(t, log.String(), "claims are made again")
	})
}

// One run that is refused says nothing of the next: nobody is to wait because of it.
func TestARunThatIsRefusedNowAndThenHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		ids := manyRuns(12)
		for i, id := range ids {
			if i%3 != 0 {
				_, err := h.server.AddFault(fault.Rule{Run: id, Event: fault.Join, Action: fault.Refuse, Response: []byte(`{"reason":"not_found"}`)})
				require.NoError(t, err)
			}
		}
		h.enqueue("manual", ids...)
		worker, _ := h.hire(phxworker.Config{
			Groups: slots.MustParse("manual:1"),
			Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, nil }),
		})
		settle(50 * time.Second)
		require.Equal(t, map[string]int{"claimed": 8, "success": 4}, ended(h, ids))
		require.Empty(t, unable(worker))
	})
}

// A clock that is wrong refuses every run, as a key does that does not fit.
func TestAClockThatIsWrong(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		ahead time.Duration // of the server's clock
		lost  int           // runs until it is known
		says  string
	}{"behind the server's": {2 * time.Minute, 1, "clock"}, "ahead of it": {-2 * time.Hour, 3, "expired"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, mockserver.Config{WakeDebounce: 24 * time.Hour, Key: key})
				there := time.Now().Add(tt.ahead)
				token, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
					"iss": "Lightning", "id": "r", "sub": "run:r", "nbf": there.Unix(), "exp": there.Add(time.Minute).Unix(),
				}).SignedString(key)
				require.NoError(t, err)
				_, err = h.server.AddFault(fault.Rule{Event: "claim", Action: fault.Answer, Count: -1, Response: []byte(`{"runs":[{"id":"r","token":"` + token + `"}]}`)})
				require.NoError(t, err)
				worker, _ := h.hire(phxworker.Config{PublicKey: h.server.PublicKey()})
				settle(50 * time.Second)
				require.Len(t, h.server.Faults(), tt.lost)
				broken := worker.Stats().Unable[0]
				require.Equal(t, phxworker.BreakerKey, broken.Name)
				require.Contains(t, broken.Error, tt.says)
				require.NotContains(t, broken.Error, "WORKER_LIGHTNING_PUBLIC_KEY", "the key fits")
			})
		})
	}
}

// A key may fit again: the server was told the right one.
func TestATokenThatVerifiesEndsATrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, signed)
		h.enqueue("manual", "a", "b", "c", "d", "e")
		worker, _ := h.hire(phxworker.Config{PublicKey: h.server.PublicKey()})
		settle(0)
		worker.TripKey(errors.New("as if it did not fit"))
		h.enqueue("manual", "f")
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			h.gate.release(id)
		}
		settle(50 * time.Second)
		require.Equal(t, "available", h.state("f"))
		settle(20 * time.Second)
		require.Equal(t, "started", h.state("f"))
		require.Empty(t, unable(worker))
	})
}

// A claim that tries the key, and brings nothing, says nothing of the engine, which has turned out
// to be ill meanwhile.
func TestAClaimWithoutARunDoesNotMakeAnEngineWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, signed)
		h.enqueue("manual", "a")
		engine := asked{phxworker.Func(h.gate.hold)}
		worker, _ := h.hire(phxworker.Config{PublicKey: h.server.PublicKey(), Engine: engine})
		settle(time.Second)
		worker.TripKey(errors.New("as if it did not fit"))
		_, err := h.server.AddFault(fault.Rule{Action: fault.Delay, Event: "claim", Delay: 3 * time.Second, Count: -1})
		require.NoError(t, err)
		settle(61 * time.Second) // the claim is under way
		h.gate.of("a") <- runner.Unable(errFullDisk)
		settle(0)
		require.Equal(t, "no space left in /repo", unable(worker))
		settle(3 * time.Second)
		require.Equal(t, "no space left in /repo", unable(worker))
	})
}

// asked is an engine that always says that it is well.
type asked struct{ phxworker.Engine }

func (asked) Check(context.Context) error { return nil }

func TestARefusedRunGoesBackWhereTheServerTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		ids := manyRuns(9)
		h.enqueue("manual", ids...)
		h.hire(all(phxworker.Config{PublicKey: strangersKey(t), MaxAttempts: -1}))
		settle(time.Hour)
		require.Equal(t, map[string]int{"available": 9}, ended(h, ids))
		require.NotEmpty(t, h.sent("run:release"))
		require.LessOrEqual(t, len(h.sent("claim")), 20)
	})
}
