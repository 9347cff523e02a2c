package phxworker_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// extended is a server that knows every extension, in a bubble.
func extended(t *testing.T, cfg mockserver.Config) *house {
	t.Helper()
	cfg.Mode, cfg.OpaqueTokens, cfg.WakeDebounce = mockserver.Extended, true, 24*time.Hour
	return openHouse(t, cfg)
}

// plain is a server that knows no extension, whatever the tests' default is.
func plain(t *testing.T) *house {
	t.Helper()
	cfg := quiet
	cfg.Mode = mockserver.Lightning
	return openHouse(t, cfg)
}

// all is a configuration that offers every extension.
func all(cfg phxworker.Config) phxworker.Config {
	cfg.Extensions = []string{phxworker.AllExtensions}
	return cfg
}

func (h *house) record(id string) mockserver.RunRecord {
	h.t.Helper()
	record, ok := h.server.Inspect(id)
	require.True(h.t, ok)
	return record
}

// Guards against a claim that waits at the server as it is meant to, and that the status takes for one that is not answered.
func TestAClaimThatWaitsIsAnsweredWithinAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{MaxWait: 10 * time.Minute})
		worker, _ := h.hire(all(phxworker.Config{}))
		for range 40 {
			settle(10 * time.Second)
			if asked := worker.Stats().Groups[0].Asked; !asked.IsZero() {
				require.Less(t, time.Since(asked), time.Minute)
			}
		}
		require.Less(t, worker.Stats().Groups[0].Claims.Total(), uint64(40), "it waits")
	})
}

// Nothing but the offer reaches a server that knows no extensions.
func TestAPlainServerSeesNoExtraFrame(t *testing.T) {
	frames := func(t *testing.T, extensions []string) (events []string) {
		synctest.Test(t, func(t *testing.T) {
			h := plain(t)
			h.enqueue("manual", "a", "b")
			_, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), Extensions: extensions, Claim: phxworker.Claim{Prefetch: true}, Hooks: phxworker.Hooks{Accept: runner.AcceptAdaptors("@openfn/language-http")}})
			settle(time.Minute)
			h.cut()
			settle(time.Minute)
			h.gate.release("a")
			settle(time.Minute)
			h.gate.release("b")
			require.NoError(t, stop())
			for _, event := range everyEvent(h) {
				events = append(events, event.topic+" "+event.payload)
			}
		})
		return events
	}
	without, offering := frames(t, []string{}), frames(t, []string{phxworker.AllExtensions})
	require.Len(t, offering, len(without))
	require.NotEmpty(t, without)
}

// everyEvent returns what the workers sent, but for the control topic.
func everyEvent(h *house) (sent []sentFrame) {
	for _, event := range []string{"phx_join", "phx_leave", "claim", "fetch:plan", "run:start", "run:log", "run:complete", "run:renew", "run:release", "worker:status"} {
		sent = append(sent, h.sent(event)...)
	}
	return sent
}

func TestAHandlersWishesAreSettledOnce(t *testing.T) {
	tests := []struct {
		name    string
		err     error
		state   string               // after the first time
		settled phxworker.Settlement // by the worker
		back    time.Duration        // when the run is there again; 0: never
		byPlain string               // what a server that takes no runs back is told
	}{
		{name: "requeue", err: fmt.Errorf("the mill is closed: %w", phxworker.ErrRequeue), settled: runner.Requeued, back: 3 * time.Second, byPlain: "exception Requeued"},
		{name: "postpone", err: phxworker.Postpone(time.Minute, ""), settled: runner.Postponed, back: time.Minute, byPlain: "exception Postponed"},
		{name: "discard", err: phxworker.Discard("not ours"), settled: runner.Discarded, state: "exception", byPlain: "exception Discarded"},
		{name: "poison", err: phxworker.Poison("kills workers"), settled: runner.Poisonous, state: "exception", byPlain: "exception Poisonous"},
		{name: "an error", err: errors.New("no stock"), settled: runner.Processed, state: "failed", byPlain: "fail JobError"},
		{name: "a success", settled: runner.Processed, state: "success", byPlain: "success "},
	}
	for _, tt := range tests {
		first := func(times *atomic.Int32) phxworker.Engine {
			return phxworker.Func(func(context.Context, *phxworker.Run) (any, error) {
				if times.Add(1) == 1 {
					return nil, tt.err
				}
				return nil, nil
			})
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				var times atomic.Int32
				worker, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Engine: first(&times)}))
				settle(time.Second)
				require.Equal(t, uint64(1), worker.Stats().Delivery.Settled[tt.settled])
				if tt.back == 0 {
					require.Equal(t, tt.state, h.state("a"))
					settle(10 * time.Minute)
					require.EqualValues(t, 1, times.Load())
					require.Equal(t, 1, h.taken("a", "run:complete"))
					return
				}
				require.Equal(t, "available", h.state("a"))
				require.Zero(t, h.taken("a", "run:complete"))
				settle(tt.back - 2*time.Second)
				require.EqualValues(t, 1, times.Load())
				settle(25 * time.Second)
				require.EqualValues(t, 2, times.Load())
				require.Equal(t, "success", h.state("a"))
				require.Equal(t, 1, h.taken("a", "run:complete"))
				require.Equal(t, uint64(1), worker.Stats().Delivery.Settled[runner.Processed])
				wantAttempt := 1
				if tt.settled == runner.Requeued {
					wantAttempt = 2
				}
				require.Equal(t, wantAttempt, h.record("a").Attempt)
			})
		})
		t.Run(tt.name+", plain server", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := plain(t)
				h.enqueue("manual", "a")
				var times atomic.Int32
				h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Engine: first(&times)}))
				settle(10 * time.Minute)
				record := h.record("a")
				require.Equal(t, tt.byPlain, record.Reason+" "+record.ErrorType)
				require.EqualValues(t, 1, times.Load())
			})
		})
	}
}

func TestTheServerIsToldTheStatusAndTakesBackFromASilentWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Hour})
		h.enqueue("manual", "a")
		_, stop := h.hire(all(phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual:3"), Name: "one"}))
		settle(31 * time.Second)
		statuses := h.sent("worker:status")
		require.Len(t, statuses, 3, "at once, and each 15 s")
		require.JSONEq(t, `{"groups":{"fast_lane":{"slots":1,"open":0,"claimed":1,"running":0},"manual":{"slots":3,"open":1,"claimed":1,"running":1}},"runs":["a"],"draining":false}`, statuses[2].payload)

		h.fail(fault.Rule{Action: fault.Drop, When: fault.Before, Event: fault.Join, Worker: h.record("a").Owners[0].Worker, Count: -1})
		h.cut()
		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Name: "two", Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return "two", nil })}))
		settle(time.Minute)
		record := h.record("a")
		require.Equal(t, "two", record.WorkerName)
		require.Equal(t, 2, record.Attempt)
		h.server.ClearFaults()
		h.gate.release("a")
		settle(time.Minute)
		require.Equal(t, "success", h.state("a"))
		require.Equal(t, 1, h.taken("a", "run:complete"))
		require.JSONEq(t, `{"value":"two"}`, string(h.record("a").FinalState))
		require.Positive(t, h.server.Stats().Extended.Stale, "what the first one had to say was not heard")
		require.NoError(t, stop())
	})
}

// Guards against a worker that a server takes for silent after each reconnect.
func TestAServerIsToldTheStatusAtEachJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		h.cut()
		settle(10 * time.Second)
		require.Len(t, h.sent("worker:status"), 2, "less than the interval has passed")
	})
}

func TestTheServerCanDrainThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		one, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
		two, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
		settle(time.Second)
		require.Equal(t, 2, h.server.DrainWorkers())
		h.enqueue("manual", "b")
		settle(time.Second)
		h.gate.release("a")
		settle(time.Second)
		require.Equal(t, []phxworker.Phase{phxworker.PhaseStopped, phxworker.PhaseStopped}, []phxworker.Phase{one.Stats().Phase, two.Stats().Phase})
		require.Equal(t, "success", h.state("a"))
		require.Equal(t, "available", h.state("b"))
		require.Zero(t, h.server.Stats().Workers)
	})
}

// noticed is a handler that takes notices.
type noticed struct {
	phxworker.Func

	notices chan string
}

func (n noticed) Prepare(ctx context.Context, run *phxworker.Run) (phxworker.Execution, error) {
	execution, err := n.Func.Prepare(ctx, run)
	return listening{execution, func(_ context.Context, notice json.RawMessage) {
		n.notices <- run.ID + " " + string(notice)
		if string(notice) == `{"bad":true}` {
			panic("over a notice")
		}
	}}, err
}

// listening is an execution that takes notices.
type listening struct {
	phxworker.Execution

	notify func(ctx context.Context, notice json.RawMessage)
}

func (l listening) Notify(ctx context.Context, notice json.RawMessage) { l.notify(ctx, notice) }

var _ phxworker.Notifiable = listening{}

func TestAnOperatorNotifiesARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a")
		engine := noticed{Func: h.gate.hold, notices: make(chan string, 9)}
		worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), Engine: engine})
		settle(time.Second)
		require.NoError(t, worker.Notify(t.Context(), "a", json.RawMessage(`{"n":1}`)))
		require.Equal(t, `a {"n":1}`, <-engine.notices)
		require.ErrorIs(t, worker.Notify(t.Context(), "b", json.RawMessage(`{}`)), phxworker.ErrNoRun)
		h.gate.release("a")
		require.NoError(t, stop())
		require.ErrorIs(t, worker.Notify(t.Context(), "a", json.RawMessage(`{}`)), phxworker.ErrNotRunning)
		require.Empty(t, engine.notices)
	})
}

func TestTheServerCancelsAndNotifiesRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a", "b")
		var cause error
		engine := noticed{notices: make(chan string, 9), Func: func(ctx context.Context, run *phxworker.Run) (any, error) {
			state, err := h.gate.hold(ctx, run)
			if run.ID == "a" {
				cause = context.Cause(ctx)
			}
			return state, err
		}}
		worker, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:2"), Engine: engine}))
		settle(time.Second)
		require.NoError(t, h.server.Notify("b", json.RawMessage(`{"more":1}`)))
		require.NoError(t, h.server.Notify("b", json.RawMessage(`{"bad":true}`)))
		require.NoError(t, h.server.Cancel("a", "not needed any more"))
		settle(time.Second)
		require.Equal(t, []string{`b {"more":1}`, `b {"bad":true}`}, []string{<-engine.notices, <-engine.notices})
		require.ErrorIs(t, cause, runner.ErrCancelled)
		record := h.record("a")
		require.Equal(t, []string{"cancelled", "RunCancelled", "not needed any more"}, []string{string(record.State), record.ErrorType, record.ErrorMessage})
		require.Equal(t, "started", h.state("b"), "a panic over a notice has no other effect")
		require.Equal(t, uint64(1), worker.Stats().Delivery.Settled[runner.Cancelled])
		require.Equal(t, uint64(1), worker.Stats().Delivery.Panics)
	})
}

func TestWhatWasNotAgreedOnIsNotHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), Extensions: []string{}})
		settle(time.Second)
		require.Error(t, h.server.Cancel("a", ""))
		require.Error(t, h.server.Notify("a", json.RawMessage(`{}`)))
		require.Zero(t, h.server.DrainWorkers())
		settle(time.Second)
		require.Equal(t, "started", h.state("a"))
		require.Equal(t, phxworker.PhaseRunning, worker.Stats().Phase)
	})
}

func TestAWorkerStopsAfterSoManyRunsOrSoLongWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		h.enqueue("manual", "a", "b", "c")
		limited, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), MaxRuns: 2})
		settle(time.Second)
		h.gate.release("a")
		settle(time.Second)
		require.Equal(t, phxworker.PhaseDraining, limited.Stats().Phase)
		h.gate.release("b")
		settle(time.Second)
		require.Equal(t, phxworker.PhaseStopped, limited.Stats().Phase)
		require.Equal(t, "available", h.state("c"))

		idle, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), IdleTimeout: time.Minute})
		settle(2 * time.Minute)
		require.Equal(t, phxworker.PhaseRunning, idle.Stats().Phase, "it has a run")
		h.gate.release("c")
		settle(59 * time.Second)
		require.Equal(t, phxworker.PhaseRunning, idle.Stats().Phase)
		settle(2 * time.Second)
		require.Equal(t, phxworker.PhaseStopped, idle.Stats().Phase)
	})
}

// Guards against a cancellation right behind the reply to a rejoin, as docs/extensions
// has servers send it.
func TestACancellationBehindARejoinIsHeeded(t *testing.T) {
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				worker, _ := h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1")}))
				settle(time.Second)
				h.cut()
				require.NoError(t, h.server.Cancel("a", "not needed any more"))
				settle(10 * time.Second)
				require.Equal(t, "cancelled", h.state("a"), "ignored pushes: %d", worker.Stats().Delivery.Unknown)
				require.Zero(t, worker.Stats().Delivery.Unknown)
			})
		})
	}
}

// Guards against a drain that comes right behind the reply to a rejoin.
func TestADrainBehindARejoinIsHeeded(t *testing.T) {
	for i := range 10 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &drainer{conns: make(chan *websocket.Conn, 2)}
				worker, err := phxworker.New(phxworker.Config{
					URL: "ws://lightning.test/worker", Secret: "secret", Extensions: []string{"drain"},
					Transport: phxworker.Transport{NetDial: wstest.Serve(t, server).DialContext}, Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return nil, nil }), //nolint:nilnil // a run without a final state
				})
				require.NoError(t, err)
				ended := make(chan error, 1)
				go func() { ended <- worker.Run(t.Context()) }()
				_ = (<-server.conns).Close()
				settle(time.Minute)
				require.NoError(t, <-ended)
				require.Zero(t, worker.Stats().Queue.Unknown)
			})
		})
	}
}

// drainer is a server that has no runs, and asks for a drain with the second join of the
// queue.
type drainer struct {
	upgrader websocket.Upgrader
	conns    chan *websocket.Conn // that have joined
	joins    int
}

func (d *drainer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, err := d.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	for {
		_, data, err := ws.ReadMessage()
		if err != nil {
			return
		}
		f, err := frame.DecodePush(data, false)
		if err != nil {
			return
		}
		response := `{"runs":[]}`
		if f.Event == frame.Join {
			response = `{"extensions":{"drain":{"v":1}}}`
			d.joins++
		}
		_ = ws.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `[%s,%s,%q,"phx_reply",{"status":"ok","response":%s}]`, cmp.Or(f.JoinRef, "null"), f.Ref, f.Topic, response))
		if f.Event != frame.Join {
			continue
		}
		if d.joins == 2 {
			_ = ws.WriteMessage(websocket.TextMessage, []byte(`[null,null,"worker:queue","worker:drain",{}]`))
		}
		d.conns <- ws
	}
}

// Guards against an extension that is offered once more by the join that follows the
// crash over it: the server counts on what it announced then.
func TestTheJoinAfterACrashOffersNoMore(t *testing.T) {
	for i := range 10 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				h.fail(fault.Rule{Action: fault.Crash, When: fault.Before, Event: "worker:status", Count: -1})
				worker, _ := h.hire(phxworker.Config{Groups: slots.MustParse("manual:1"), Extensions: []string{"status"}})
				settle(5 * time.Minute)
				require.Equal(t, []string{"status"}, worker.Stats().ExtensionsOff)
				joins := 0
				for _, f := range h.sent("phx_join") {
					if f.topic == "worker:queue" {
						// The first status goes out with a claim, so that either may be the cause.
						if joins++; joins > 2 {
							require.NotContains(t, f.payload, "status", "join %d", joins)
						}
					}
				}
				require.Equal(t, 1, h.record("a").Attempt, "silent: %d", h.server.Stats().Extended.SilentWorkers)
			})
		})
	}
}

// Guards against an engine that is too busy for a notice and so cannot be cancelled.
func TestACancellationIsHeardBehindANoticeThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.hire(all(phxworker.Config{Groups: slots.MustParse("manual:1"), Engine: deaf{h.gate.hold}}))
		settle(time.Second)
		require.NoError(t, h.server.Notify("a", json.RawMessage(`{}`)))
		settle(time.Second)
		require.NoError(t, h.server.Cancel("a", "not needed"))
		settle(time.Minute)
		require.Equal(t, "cancelled", h.state("a"))
	})
}
