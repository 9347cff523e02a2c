package phxworker

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// Guards against a rejoin with a token that has expired, tried for ever.
func TestTrapATokenThatExpiredWhileTheWorkerWasAway(t *testing.T) {
	for _, reason := range []string{"unauthorized", "not_found"} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, quiet)
				h.enqueue("manual", "m1")
				dir := t.TempDir()
				worker, stop := h.hire(Config{Engine: Func(h.gate.inSteps), Delivery: Delivery{Spool: dir}})
				settle(time.Second)
				if reason == "unauthorized" {
					require.NoError(t, h.server.ExpireToken("m1"))
				} else {
					h.fail(fault.Rule{Event: fault.Join, Run: "m1", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`), Count: -1})
				}
				h.cut()
				settle(10 * time.Minute)
				joins := 0
				for _, f := range h.sent("phx_join") {
					if f.topic == "run:m1" {
						joins++
					}
				}
				require.Equal(t, 2, joins, "the first, and the one that was refused")
				require.Equal(t, 1, worker.Stats().Undelivered)
				require.Zero(t, worker.Stats().Groups[0].Running, "its slot is free")
				spooled, err := readSpool(dir)
				require.NoError(t, err)
				require.Len(t, spooled, 1)
				require.Contains(t, spooled[0].Cause, reason)
				require.NoError(t, stop())
			})
		})
	}
}

// Guards against a reply that never comes, on a join that lives: it would hold the
// run's slot for as long as the connection lasts.
func TestTrapAReplyThatNeverComesFreesTheSlot(t *testing.T) {
	tests := []struct {
		event  string
		fetch  bool
		pushes int // each wait is twice as long as the one before
		joins  int
	}{
		{event: "fetch:plan", fetch: true, pushes: 3, joins: 4},
		{event: "fetch:dataclip", fetch: true, pushes: 3, joins: 4},
		{event: "step:start", pushes: 4, joins: 4},
		{event: "run:complete", pushes: 4, joins: 4},
	}
	for _, tt := range tests {
		t.Run(tt.event, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, mockserver.Config{WakeDebounce: quiet.WakeDebounce}) // whose tokens tell their end
				plan := `{"id":"m1","dataclip_id":"d","jobs":[{"id":"j","body":"fn(s => s)"}]}`
				h.put(mockserver.Run{Plan: json.RawMessage(plan), Dataclip: json.RawMessage(`{}`), Queue: "manual"})
				h.enqueue("manual", "m2")
				h.fail(fault.Rule{Event: tt.event, Run: "m1", Action: fault.Withhold, Count: -1})
				h.gate.release("m1")
				worker, stop := h.hire(Config{Groups: slots.MustParse("manual>*:1"), Engine: Func(h.gate.inSteps)})
				settle(5 * time.Minute)
				if tt.fetch {
					require.Equal(t, "exception", h.state("m1"), "the server hears why")
				} else {
					require.Equal(t, "available", h.state("m2"), "the token of m1 is good, and its answer may still come")
				}
				settle(2 * time.Minute)
				require.Equal(t, "started", h.state("m2"))
				if !tt.fetch {
					require.Equal(t, 1, worker.Stats().Undelivered)
				}
				ofOther := func(f sentFrame) bool { return f.topic != "run:m1" }
				require.Len(t, slices.DeleteFunc(h.sent(tt.event), ofOther), tt.pushes)
				require.Len(t, slices.DeleteFunc(h.sent("phx_join"), ofOther), tt.joins, "nothing is sent twice on a live join")
				h.gate.release("m2")
				require.NoError(t, stop())
			})
		})
	}
}
