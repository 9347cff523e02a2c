package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

const manual = `{group="manual>*"}`

func TestRunsByReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, quiet, phxworker.Config{})
		h.begin()
		h.enqueue("manual", "ok-1", "ok-2", "fail-1", "crash-1", "kill-1", "exception-1", "hold-1")
		h.server.Wake()
		settle(time.Minute)
		require.NoError(t, h.worker.Cancel("hold-1"))
		settle(time.Minute)
		h.expect(map[string]float64{
			`phxworker_runs_total{reason="success"}`:                 2,
			`phxworker_runs_total{reason="fail"}`:                    1,
			`phxworker_runs_total{reason="crash"}`:                   1,
			`phxworker_runs_total{reason="kill"}`:                    1,
			`phxworker_runs_total{reason="exception"}`:               1,
			`phxworker_runs_total{reason="cancel"}`:                  1,
			`phxworker_runs_undelivered_total`:                       0,
			`phxworker_run_seconds_count`:                            7,
			`phxworker_run_seconds_sum`:                              60, // the time of this house passes only in waiting
			`phxworker_run_seconds_bucket{le="30"}`:                  6,
			`phxworker_run_seconds_bucket{le="60"}`:                  7,
			`phxworker_claim_to_start_seconds_count`:                 7,
			`phxworker_claims_total{group="manual>*",outcome="run"}`: 7,
		})
	})
}

func TestSlotsWhileRunsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, quiet, phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual>*:3")})
		h.begin()
		h.enqueue("manual", "hold-1", "hold-2")
		h.server.Wake()
		settle(time.Second) // until the first has shown that the engine works
		h.fail(fault.Rule{Action: fault.Delay, Event: "claim", Delay: time.Hour})
		settle(29 * time.Second)
		h.expect(map[string]float64{
			`phxworker_slots{group="fast_lane"}`:                      1,
			`phxworker_slots` + manual:                                3,
			`phxworker_slots_used{group="manual>*",state="running"}`:  2,
			`phxworker_slots_used{group="fast_lane",state="running"}`: 0,
			`phxworker_slots_used*`:                                   4, // each group has a claim that is not answered
			`phxworker_oldest_run_seconds`:                            30,
			`phxworker_group_paused*`:                                 0,
			`phxworker_runs_total*`:                                   0,
		})

		require.NoError(t, h.worker.Resize("manual>*", 7))
		require.NoError(t, h.worker.Pause("manual>*"))
		h.expect(map[string]float64{
			`phxworker_slots` + manual:                  7,
			`phxworker_group_paused` + manual:           1,
			`phxworker_group_paused{group="fast_lane"}`: 0,
			`phxworker_draining`:                        0,
		})
		h.worker.Drain()
		settle(time.Second)
		h.expect(map[string]float64{`phxworker_draining`: 1})
		close(h.release("hold-1"))
		settle(time.Second)
		h.expect(map[string]float64{`phxworker_runs_total{reason="success"}`: 1})
	})
}

func TestClaimsByOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shut atomic.Bool
		h := open(t, quiet, phxworker.Config{Groups: slots.MustParse("manual>*:1"), Claim: phxworker.Claim{MinBackoff: time.Hour, MaxBackoff: time.Hour}, Hooks: phxworker.Hooks{Gate: func(context.Context, string) error {
			if shut.Load() {
				return errors.New("no room on the disk")
			}
			return nil
		}}})
		h.begin() // and claims in vain
		claim := func() {
			h.server.Wake()
			settle(time.Second)
		}
		h.fail(fault.Rule{Action: fault.Delay, Event: "claim", Delay: 20 * time.Second})
		claim()
		h.expect(map[string]float64{`phxworker_slots_used{group="manual>*",state="claimed"}`: 1})
		settle(time.Minute)
		h.fail(fault.Rule{Action: fault.Refuse, Event: "claim", Response: json.RawMessage(`{"errors":{"claim":["no"]}}`)})
		claim()
		h.enqueue("manual", "ok-1")
		claim() // and once more, after the run
		shut.Store(true)
		claim()
		h.expect(map[string]float64{
			`phxworker_claims_total{group="manual>*",outcome="run"}`:   1,
			`phxworker_claims_total{group="manual>*",outcome="empty"}`: 3,
			`phxworker_claims_total{group="manual>*",outcome="error"}`: 1,
			`phxworker_claims_held_back_total` + manual:                1,
			`phxworker_wakes_total` + manual:                           4,
			`phxworker_wakes_coalesced_total` + manual:                 0,
			`phxworker_claim_seconds_count` + manual:                   4,
			`phxworker_claim_seconds_sum` + manual:                     20,
			`phxworker_claim_seconds_bucket{group="manual>*",le="10"}`: 3,
			`phxworker_claim_seconds_bucket{group="manual>*",le="30"}`: 4,
			`phxworker_wake_to_start_seconds_count`:                    1,
			`phxworker_runs_total*`:                                    1,
		})
	})
}

func TestWakesOfAFullGroupBecomeOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, quiet, phxworker.Config{Groups: slots.MustParse("manual>*:1")})
		h.enqueue("manual", "hold-1")
		h.begin()
		for range 5 {
			h.server.Wake()
			settle(time.Second)
		}
		h.expect(map[string]float64{
			`phxworker_wakes_total` + manual:           5,
			`phxworker_wakes_coalesced_total` + manual: 4,
			`phxworker_wake_to_start_seconds_count`:    0, // it was there before any
			`phxworker_claim_to_start_seconds_count`:   1,
		})
	})
}

func TestConnectionsByWhyTheyWereLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, quiet, phxworker.Config{})
		h.expect(map[string]float64{`phxworker_connected`: 0, `phxworker_sockets`: 0, `phxworker_connections_total`: 0})
		h.begin()
		h.expect(map[string]float64{
			`phxworker_connected`: 1, `phxworker_queue_joined`: 1, `phxworker_sockets`: 1, `phxworker_connections_total`: 1,
			`phxworker_connections_lost_total*`: 0, `phxworker_heartbeat_round_trip_seconds`: 0,
		})

		require.NoError(t, h.server.Kick(1000))
		settle(time.Minute)
		require.NoError(t, h.server.Kick(fault.Abnormal))
		settle(time.Minute)
		h.fail(fault.Rule{Action: fault.Withhold, Event: fault.Heartbeat})
		settle(3 * time.Minute)
		h.fail(fault.Rule{Action: fault.Delay, Event: fault.Heartbeat, Delay: 2 * time.Second, Count: -1})
		settle(time.Minute)
		h.expect(map[string]float64{
			`phxworker_connected`: 1, `phxworker_queue_joined`: 1, `phxworker_connections_total`: 4,
			`phxworker_connections_lost_total{cause="closed"}`:    1,
			`phxworker_connections_lost_total{cause="network"}`:   1,
			`phxworker_connections_lost_total{cause="heartbeat"}`: 1,
			`phxworker_connections_lost_total{cause="protocol"}`:  0,
			`phxworker_connections_lost_total{cause="dial"}`:      0,
			`phxworker_heartbeat_round_trip_seconds`:              2,
		})

		require.NoError(t, h.server.Restart(0, time.Hour))
		settle(5 * time.Minute)
		got := h.scrape().samples
		require.Zero(t, got[`phxworker_connected`])
		require.Zero(t, got[`phxworker_queue_joined`])
		require.Greater(t, got[`phxworker_connections_lost_total{cause="dial"}`], 3.0)
	})
}

func TestWhatEnginesDoWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, quiet, phxworker.Config{Limits: phxworker.Limits{RunTimeout: time.Minute}})
		h.processes.Store(3)
		h.enqueue("manual", "panic-1", "deaf-1")
		h.begin()
		settle(10 * time.Minute)
		h.expect(map[string]float64{
			`phxworker_engine_panics_total`: 1, `phxworker_engines_stuck`: 1, `phxworker_engines_stuck_total`: 1,
			`phxworker_runs_total{reason="crash"}`: 1, `phxworker_runs_total{reason="kill"}`: 1, `phxworker_engine_processes`: 3,
		})
		close(h.release("deaf-1"))
		settle(0)
		h.expect(map[string]float64{`phxworker_engines_stuck`: 0, `phxworker_engines_stuck_total`: 1})
	})
}

func TestRunsWithATokenOfSomebodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, err := mockserver.New(mockserver.Config{})
		require.NoError(t, err)
		defer other.Close()
		h := open(t, mockserver.Config{WakeDebounce: 24 * time.Hour}, phxworker.Config{PublicKey: other.PublicKey()})
		h.enqueue("manual", "ok-1", "ok-2")
		h.begin()
		settle(time.Minute)
		h.expect(map[string]float64{`phxworker_runs_refused_total` + manual: 2, `phxworker_runs_total*`: 0, `phxworker_claims_total{group="manual>*",outcome="run"}`: 2})
	})
}

// Guards against two series of one name, which make Prometheus refuse the whole
// scrape, and against counting a claim for each of the groups.
func TestGroupsOfTheSameNameAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, quiet, phxworker.Config{Groups: slots.MustParse("manual>*:1 fast_lane:1 manual>*:3")})
		h.enqueue("manual", "hold-1", "hold-2", "hold-3", "hold-4")
		h.begin()
		h.expect(map[string]float64{
			`phxworker_slots` + manual:                                 4,
			`phxworker_slots{group="fast_lane"}`:                       1,
			`phxworker_slots_used{group="manual>*",state="running"}`:   4,
			`phxworker_claims_total{group="manual>*",outcome="run"}`:   4,
			`phxworker_claims_total{group="manual>*",outcome="empty"}`: 0,
			`phxworker_claim_seconds_count` + manual:                   4,
		})
		require.NoError(t, h.worker.Pause("manual>*"))
		h.expect(map[string]float64{`phxworker_group_paused` + manual: 1, `phxworker_group_paused*`: 1})
	})
}
