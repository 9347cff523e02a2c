package phxworker

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// Guards against a cancellation right behind the reply to a rejoin, as docs/extensions
// has servers send it.
func TestACancellationBehindARejoinIsHeeded(t *testing.T) {
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				worker, _ := h.hire(all(Config{Groups: slots.MustParse("manual:1")}))
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
				worker, err := New(Config{
					URL: "ws://lightning.test/worker", Secret: "secret", Extensions: []string{"drain"},
					Transport: Transport{NetDial: wstest.Serve(t, server).DialContext}, Engine: Func(nil),
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
				worker, _ := h.hire(Config{Groups: slots.MustParse("manual:1"), Extensions: []string{"status"}})
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

// Guards against a worker that stops renewing what the server goes on leasing: its runs
// would be taken from it, and given to it again, until they are poisoned.
func TestACrashOverARenewalTakesNoRunAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{Lease: time.Minute})
		h.enqueue("manual", "a")
		h.fail(fault.Rule{Action: fault.Crash, When: fault.Before, Event: "run:renew", Count: 1})
		var executed atomic.Int32
		h.hire(all(Config{Groups: slots.MustParse("manual:3"), MaxAttempts: -1, Engine: Func(func(ctx context.Context, run *Run) (any, error) {
			executed.Add(1)
			return h.gate.hold(ctx, run)
		})}))
		settle(30 * time.Second)
		h.enqueue("manual", "c")
		settle(20 * time.Second) // the first renewal, of a, has crashed
		h.enqueue("manual", "b")
		settle(10 * time.Minute)
		for _, id := range []string{"a", "b", "c"} {
			require.Equal(t, 1, h.record(id).Attempt, id)
		}
		require.EqualValues(t, 3, executed.Load())
	})
}

// deaf takes no notice until its run is over.
type deaf struct{ Func }

func (d deaf) Prepare(ctx context.Context, run *Run) (Execution, error) {
	execution, err := d.Func.Prepare(ctx, run)
	return listening{execution, func(ctx context.Context, _ json.RawMessage) { <-ctx.Done() }}, err
}

// Guards against an engine that is too busy for a notice and so cannot be cancelled.
func TestACancellationIsHeardBehindANoticeThatNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		h.hire(all(Config{Groups: slots.MustParse("manual:1"), Engine: deaf{h.gate.hold}}))
		settle(time.Second)
		require.NoError(t, h.server.Notify("a", json.RawMessage(`{}`)))
		settle(time.Second)
		require.NoError(t, h.server.Cancel("a", "not needed"))
		settle(time.Minute)
		require.Equal(t, "cancelled", h.state("a"))
	})
}
