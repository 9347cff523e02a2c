package phxworker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

func TestStopLetsRunsFinishAndLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		_, stop := h.hire(phxworker.Config{})
		settle(time.Second)
		require.Equal(t, "started", h.state("m1"))

		stopped := make(chan struct{})
		go func() {
			_ = stop()
			close(stopped)
		}()
		settle(time.Minute)
		claims := len(h.sent("claim"))
		h.enqueue("manual", "m2")
		h.server.Wake()
		settle(time.Minute)
		require.Len(t, h.sent("claim"), claims, "a worker that stops claims no more")

		h.gate.release("m1")
		<-stopped
		require.Equal(t, "success", h.state("m1"))
		require.Equal(t, "available", h.state("m2"))
		leaves := h.sent("phx_leave")
		require.Equal(t, "worker:queue", leaves[len(leaves)-1].topic)
		synctest.Wait()
		require.Zero(t, h.server.Stats().Sockets)
	})
}

func TestStopEndsRunsAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		var log strings.Builder
		_, stop := h.hire(phxworker.Config{Grace: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		settle(time.Second)
		begin := time.Now()
		require.ErrorIs(t, stop(), phxworker.ErrAborted)
		require.GreaterOrEqual(t, time.Since(begin), 10*time.Second)
		require.Less(t, time.Since(begin), 15*time.Second)
		result, err := h.server.Wait(t.Context(), "m1")
		require.NoError(t, err)
		require.Equal(t, "cancel", result.Reason)
		require.Equal(t, "WorkerStopped", result.ErrorType)
		require.Contains(t, log.String(), "run_ids=[m1]")
	})
}

func TestStopBeforeTheFirstConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		require.NoError(t, h.listener.Close())
		_, stop := h.hire(phxworker.Config{})
		settle(time.Minute)
		require.NoError(t, stop())
	})
}

// Guards against a loop that was full when the connection dropped and is never
// heard of again.
func TestAFullLoopResumesAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1", "m2")
		h.hire(phxworker.Config{Groups: slots.MustParse("manual>*:1")})
		settle(time.Second)
		h.cut()
		settle(time.Minute)
		h.gate.release("m1")
		settle(time.Second)
		require.Equal(t, "success", h.state("m1"))
		require.Equal(t, "started", h.state("m2"))
	})
}

func TestARunGoesOnWhileTheConnectionIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		h.hire(phxworker.Config{})
		settle(time.Second)
		h.cut()
		h.gate.release("m1") // it ends while nobody can hear it
		settle(time.Minute)
		require.Equal(t, "success", h.state("m1"))
		require.Len(t, h.sent("run:complete"), 1)
	})
}

// Guards against a server that is emptied at the speed of the network: it refuses
// every run that it has just given away.
func TestASlotWhoseRunCameToNothingIsHeldForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		var ids []string
		for n := range 100 {
			ids = append(ids, fmt.Sprint("m", n))
			if n%2 == 0 { // of more in a row, the worker draws its conclusions
				h.fail(fault.Rule{Event: fault.Join, Run: ids[n], Action: fault.Refuse, Response: json.RawMessage(`{"reason":"unauthorized"}`)})
			}
		}
		h.enqueue("manual", ids...)
		h.hire(phxworker.Config{Groups: slots.MustParse("manual>*:1"), Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, nil })})
		settle(10 * time.Second)
		refused := len(h.server.Faults())
		require.LessOrEqual(t, refused, 11, "one a second")
		require.GreaterOrEqual(t, refused, 8)
	})
}

func TestTwoWorkersInOneProcessShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := openHouse(t, quiet), openHouse(t, quiet)
		first.enqueue("manual", "a")
		second.enqueue("manual", "a")
		one, stopOne := first.hire(phxworker.Config{})
		two, _ := second.hire(phxworker.Config{})
		settle(time.Second)
		require.Equal(t, 1, one.Stats().Groups[0].Running)
		require.Equal(t, 1, two.Stats().Groups[0].Running)
		first.gate.release("a")
		settle(time.Second)
		require.NoError(t, stopOne())
		require.Equal(t, map[phxworker.Reason]int{"success": 1}, one.Stats().Ended)
		require.Empty(t, two.Stats().Ended)
		require.True(t, two.Stats().Queue.Joined)
		require.Equal(t, "started", second.state("a"))
	})
}

func TestAWorkerRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, stop := h.hire(phxworker.Config{})
		require.NoError(t, stop())
		require.ErrorContains(t, worker.Run(t.Context()), "Run was called before")
	})
}

func TestConfigIsRefusedWithOneClearLine(t *testing.T) {
	engine := phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, errors.New("never called") })
	tests := []struct {
		name string
		cfg  phxworker.Config
		want string
	}{
		{name: "no URL", cfg: phxworker.Config{Secret: "s", Engine: engine}, want: "no URL"},
		{name: "a URL that is none", cfg: phxworker.Config{URL: "ftp://h/worker", Secret: "s", Engine: engine}, want: `scheme "ftp"; write ws:// or wss:// before the host`},
		{name: "a URL without its scheme", cfg: phxworker.Config{URL: "localhost:4000/worker", Secret: "s", Engine: engine}, want: `write ws:// or wss:// before the host`},
		{name: "no secret", cfg: phxworker.Config{URL: "ws://h/worker", Engine: engine}, want: "no secret"},
		{name: "a secret of blanks", cfg: phxworker.Config{URL: "ws://h/worker", Secret: " \t\n", Engine: engine}, want: "no secret, or one that is all blanks"},
		{name: "no engine", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s"}, want: "no engine"},
		{name: "a function that is nil", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s", Engine: phxworker.Func(nil)}, want: "no engine"},
		{name: "malformed group", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Groups: []slots.Group{{Queues: []string{"fast_lane"}}}}, want: `fast_lane:0`},
		{name: "unknown extension", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Extensions: []string{"leese"}}, want: `no extension "leese"`},
		{name: "a negative time", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Delivery: phxworker.Delivery{MessageTimeout: -time.Second}}, want: "Delivery.MessageTimeout is negative"},
		{name: "a negative size", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Delivery: phxworker.Delivery{OutboxBytes: -1}}, want: "Delivery.OutboxBytes is negative"},
		{name: "a negative number", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s", Engine: engine, MaxRuns: -1}, want: "MaxRuns is negative"},
		{name: "a negative back-off", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Claim: phxworker.Claim{MinBackoff: -1}}, want: "Claim.MinBackoff is negative"},
		{name: "back-offs exchanged", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Claim: phxworker.Claim{MinBackoff: time.Minute, MaxBackoff: time.Second}}, want: "exchange them"},
		{name: "a level that is none", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Limits: phxworker.Limits{JobLogLevel: "loud"}}, want: `JobLogLevel is "loud"`},
		{name: "no middleware", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s", Engine: engine, Hooks: phxworker.Hooks{Middleware: []phxworker.Middleware{nil}}}, want: "Hooks.Middleware"},
		{name: "bad key", cfg: phxworker.Config{URL: "ws://h/worker", Secret: "s", Engine: engine, PublicKey: "%%%"}, want: "key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := phxworker.New(tt.cfg)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// The failure of one run is nobody else's.
func TestAPanicEndsItsRunOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "bad", "good")
		h.hire(phxworker.Config{Engine: phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) {
			if run.ID == "bad" {
				panic("out of order")
			}
			return json.RawMessage(`{"fine":true}`), nil
		})})
		settle(time.Second)
		bad, err := h.server.Wait(t.Context(), "bad")
		require.NoError(t, err)
		require.Equal(t, "crash", bad.Reason)
		require.Equal(t, "panic: out of order", bad.ErrorMessage)
		good, err := h.server.Wait(t.Context(), "good")
		require.NoError(t, err)
		require.Equal(t, "success", good.Reason)
		require.JSONEq(t, `{"fine":true}`, string(good.FinalState))
	})
}

func TestCredentialsAreFetchedSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.put(mockserver.Run{
			Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"x"},{"id":"b","credential":"y"},{"id":"c","credential":"x"}]}`),
			Credentials: map[string]json.RawMessage{"x": json.RawMessage(`{"k":"1"}`), "y": json.RawMessage(`{"k":"2"}`)},
		})
		_, err := h.server.AddFault(fault.Rule{Action: fault.Delay, Event: "fetch:credential", Delay: time.Second, Count: -1})
		require.NoError(t, err)
		h.hire(phxworker.Config{Engine: phxworker.Func(func(_ context.Context, run *phxworker.Run) (any, error) {
			return []string{string(run.Credential("a")), string(run.Credential("b")), string(run.Credential("c"))}, nil
		})})
		settle(time.Minute)
		fetches := h.sent("fetch:credential")
		require.Len(t, fetches, 2, "one that two jobs share is fetched once")
		require.Equal(t, fetches[0].at, fetches[1].at, "neither waits for the other's answer")
		record, _ := h.server.Inspect("r1")
		require.JSONEq(t, `{"value":["{\"k\":\"1\"}","{\"k\":\"2\"}","{\"k\":\"1\"}"]}`, string(record.FinalState))
	})
}

func TestAbortCancelsAndReportsTheRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1", "m2")
		worker, stop := h.hire(phxworker.Config{})
		settle(time.Second)
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		settle(10 * time.Second)
		h.gate.release("m1")
		synctest.Wait()
		begin := time.Now()
		worker.Abort()
		require.ErrorIs(t, <-ended, phxworker.ErrAborted)
		require.Less(t, time.Since(begin), time.Second)
		require.Equal(t, "success", h.state("m1"))
		result, err := h.server.Wait(t.Context(), "m2")
		require.NoError(t, err)
		require.Equal(t, "cancel", result.Reason)
	})
}

func TestAbortWhileTheServerIsAwayGivesUpAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		worker, stop := h.hire(phxworker.Config{Delivery: phxworker.Delivery{Spool: t.TempDir()}})
		settle(time.Second)
		require.NoError(t, h.listener.Close())
		h.cut()
		settle(time.Second)
		begin := time.Now()
		worker.Abort()
		require.ErrorIs(t, stop(), phxworker.ErrAborted)
		require.Less(t, time.Since(begin), 30*time.Second)
		require.Equal(t, 1, worker.Stats().Undelivered)
	})
}

func TestAbortBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		worker, err := phxworker.New(phxworker.Config{URL: "ws://lightning.test/worker", Secret: "s", Transport: phxworker.Transport{NetDial: h.dial}, Engine: phxworker.Func(h.gate.hold)})
		require.NoError(t, err)
		worker.Abort()
		worker.Abort()
		require.NoError(t, worker.Run(t.Context()))
	})
}

// Guards against a run that is lost because its claim was answered while the
// worker was stopping.
func TestAClaimAnsweredDuringAStopIsCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "m1")
		worker, err := phxworker.New(phxworker.Config{
			URL: "ws://lightning.test/worker", Secret: h.server.Secret(), Transport: phxworker.Transport{NetDial: h.dial},
			Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return map[string]bool{"done": true}, nil }),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- worker.Run(ctx) }()
		// The stop falls at whatever moment of the first claim the scheduler
		// picks; in none may the run be left claimed.
		for h.server.Stats().Workers == 0 {
			time.Sleep(time.Microsecond)
		}
		cancel()
		require.NoError(t, <-ended)
		require.Contains(t, []string{"available", "success"}, h.state("m1"))
	})
}

func TestTooManyErrorsStopTheWorker(t *testing.T) {
	tests := []struct {
		name string
		rule fault.Rule
		most int
	}{
		{name: "claims that fail", rule: fault.Rule{Event: "claim"}, most: 3},
		{name: "a run that cannot be reported", rule: fault.Rule{Event: fault.Join, Run: "a"}, most: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				h.enqueue("manual", "a", "b")
				tt.rule.Action, tt.rule.Response, tt.rule.Count = fault.Refuse, []byte(`{"reason":"no"}`), -1
				h.fail(tt.rule)
				worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), MaxErrors: tt.most})
				settle(10 * time.Minute)
				require.Equal(t, phxworker.PhaseStopped, worker.Stats().Phase)
				require.ErrorIs(t, stop(), phxworker.ErrTooManyErrors)
				require.Len(t, h.server.Faults(), tt.most)
			})
		})
	}
}

func TestBudget(t *testing.T) {
	b := phxworker.NewBudget(2)
	b.Count(nil)
	b.Count(context.Canceled)
	b.Count(nil)
	b.Count(context.Canceled)
	require.False(t, b.Spent(), "a success takes an error off")
	b.Count(context.Canceled)
	require.True(t, b.Spent())
	b.Count(nil)
	b.Count(context.Canceled)
	require.True(t, b.Spent(), "for good")
}

// Guards against a stop that waits for a slot which is only held so that the server is not
// asked too often.
func TestAStopDoesNotWaitForASlotThatIsHeldForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.fail(fault.Rule{Action: fault.Refuse, Event: fault.Join, Topic: "run:*", Response: []byte(`{"reason":"unauthorized"}`), Count: -1})
		h.enqueue("manual", "a")
		_, stop := h.hire(phxworker.Config{Claim: phxworker.Claim{MinBackoff: time.Minute}})
		settle(time.Second)
		begin := time.Now()
		require.NoError(t, stop())
		require.Less(t, time.Since(begin), time.Second)
	})
}

func TestStopDrainsAndThenStopsWhatRuns(t *testing.T) {
	for name, tt := range map[string]struct {
		finish []string
		want   error
	}{
		"all finish":    {finish: []string{"m1", "m2"}},
		"one goes on":   {finish: []string{"m1"}, want: phxworker.ErrAborted},
		"none finishes": {want: phxworker.ErrAborted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				h.enqueue("manual", "m1", "m2")
				worker, _ := h.hire(phxworker.Config{})
				settle(time.Second)
				time.AfterFunc(5*time.Second, func() {
					for _, id := range tt.finish {
						h.gate.release(id)
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				begin := time.Now()
				require.ErrorIs(t, worker.Stop(ctx), tt.want)
				require.Equal(t, phxworker.PhaseStopped, worker.Stats().Phase)
				require.Less(t, time.Since(begin), 11*time.Second)
				require.ErrorIs(t, worker.Stop(ctx), tt.want, "whoever asks again hears the same")
				for _, id := range []string{"m1", "m2"} {
					want := "cancelled"
					if slices.Contains(tt.finish, id) {
						want = "success"
					}
					require.Equal(t, want, h.state(id))
				}
			})
		})
	}
}

func TestAWorkerThatNeverRanCannotBeStopped(t *testing.T) {
	worker, err := phxworker.New(phxworker.Config{URL: "ws://lightning.test/worker", Secret: "s", Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, nil })})
	require.NoError(t, err)
	require.ErrorIs(t, worker.Stop(t.Context()), phxworker.ErrNotRunning)
}

// A run whose end was only being reported when the grace was over has not been
// stopped.
func TestARunThatHadEndedIsNotCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "run:complete", Delay: 40 * time.Second})
		_, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), Grace: 30 * time.Second})
		settle(time.Second)
		h.gate.release("a")
		settle(0)
		require.NoError(t, stop())
		require.Equal(t, "success", h.state("a"))
	})
}

func TestARunThatWasCancelledBeforeIsNotCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "run:complete", Delay: 5 * time.Second})
		worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1")})
		settle(time.Second)
		require.NoError(t, worker.Cancel("a"))
		settle(time.Second) // its end is being reported
		worker.Abort()
		require.NoError(t, stop(), "no run was cut short")
	})
}

func TestARunThatWentBackBeforeIsNotCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Delay, When: fault.After, Event: "run:release", Delay: 3 * time.Second})
		worker, stop := h.hire(phxworker.Config{Extensions: []string{"release"}, Groups: slots.MustParse("manual:1"), Engine: phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) { return nil, phxworker.ErrRequeue })})
		settle(time.Second)
		require.Len(t, h.sent("run:release"), 1)
		worker.Abort()
		require.NoError(t, stop(), "no run was cut short")
	})
}

// Guards against a run that is lost without a trace because it was leased: it is
// still this worker's when the worker has to give up.
func TestALeasedRunThatCannotBeReportedIsSpooled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Hour})
		h.enqueue("manual", "a")
		dir := t.TempDir()
		worker, stop := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Delivery: phxworker.Delivery{Spool: dir}}))
		settle(time.Second)
		h.fail(fault.Rule{Event: fault.Connect, Action: fault.Refuse, Count: -1})
		h.cut()
		settle(time.Second)
		worker.Abort()
		require.ErrorIs(t, stop(), phxworker.ErrAborted)
		require.Equal(t, 1, worker.Stats().Undelivered)
		spooled, err := readSpool(dir)
		require.NoError(t, err)
		require.Len(t, spooled, 1)
	})
}

// Guards against a run that is taken for another worker's, on a server that knows no
// leases, when the server closes its topic.
func TestARunWhoseTopicIsClosedIsSpooled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mock := &lightningMock{plan: `{"id":"r1","jobs":[{"id":"j"}]}`, runs: `{"id":"r1","token":"x.y.z"}`, closes: "run:start", events: make(chan string, 1000)}
		listener := wstest.Serve(t, mock)
		dir := t.TempDir()
		worker, err := phxworker.New(phxworker.Config{URL: "ws://lightning.test/worker", Secret: "s", Transport: phxworker.Transport{NetDial: listener.DialContext}, Engine: phxworker.Func(newGate().hold), Delivery: phxworker.Delivery{Spool: dir}})
		require.NoError(t, err)
		running := make(chan error, 1)
		go func() { running <- worker.Run(t.Context()) }()
		settle(time.Minute)
		require.Equal(t, 1, worker.Stats().Undelivered)
		worker.Drain()
		require.NoError(t, <-running)
		spooled, err := readSpool(dir)
		require.NoError(t, err)
		require.Len(t, spooled, 1)
		require.Contains(t, spooled[0].Cause, "closed")
	})
}

// Guards against a worker that does not start for want of what it may never need.
func TestAWorkerWithoutItsSpoolFolderStartsAndSaysSo(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "none")
	_, err := phxworker.New(phxworker.Config{URL: "ws://lightning.test/worker", Secret: "s", Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return "done", nil }), Delivery: phxworker.Delivery{Spool: dir}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.Contains(t, log.String(), "the spool folder cannot be opened, and until it can what cannot be reported is lost")
}
