package web

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

func TestPauseStopsTheClaimsAndResumeBringsThemBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual>*:2")}, withControls)
		a := h.ask("POST", "/pause", "")
		require.Equal(t, http.StatusOK, a.status)
		require.Equal(t, 2, strings.Count(a.body, `"paused": true`), a.body)
		settle(time.Second)
		before := h.claims()
		h.enqueue("r")
		settle(time.Hour)
		require.Equal(t, before, h.claims(), "a paused worker does not claim")
		require.Equal(t, "available", h.state("r"))
		require.True(t, h.status().Ready, "a paused worker is ready")
		require.Contains(t, h.status().Summary, "paused")

		require.Equal(t, http.StatusOK, h.ask("POST", "/resume?group=fast_lane", "").status)
		settle(time.Minute)
		require.Greater(t, h.claims(), before, "the group that was resumed claims")
		require.Equal(t, "available", h.state("r"), "the other does not")

		a = h.ask("POST", "/resume?group=manual>*", "")
		require.Equal(t, http.StatusOK, a.status)
		require.Contains(t, a.body, `"name": "manual>*"`)
		require.NotContains(t, a.body, "fast_lane")
		settle(0)
		require.Equal(t, "started", h.state("r"))
	})
}

func TestASlipOfThePenPausesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, withControls)
		for _, query := range []string{"?grup=manual>*", "?group=", "?group=manual>*&x=1", "?group=a&group=b"} {
			a := h.ask("POST", "/pause"+query, "")
			require.Equal(t, http.StatusBadRequest, a.status, query)
			require.JSONEq(t, `{"error":"write ?group=NAME for one group, or nothing for all"}`, a.body)
		}
		a := h.ask("POST", "/pause?group=manual", "")
		require.Equal(t, http.StatusNotFound, a.status)
		require.JSONEq(t, `{"error":"there is no slot group \"manual\"; the groups are manual>*"}`, a.body)
		require.False(t, h.status().Groups[0].Paused)
	})
}

func TestDrainEndsTheWorkerOnceItsRunsHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, withControls)
		h.enqueue("r")
		settle(0)
		a := h.ask("POST", "/drain", "")
		require.Equal(t, http.StatusAccepted, a.status)
		require.JSONEq(t, `{"draining":true,"running":1}`, a.body)
		settle(time.Second)
		a = h.ask("GET", "/readyz", "")
		require.Equal(t, http.StatusServiceUnavailable, a.status)
		require.Equal(t, "draining: the worker claims no more\n", a.body)
		require.Equal(t, phxworker.PhaseDraining, h.status().Phase)
		h.release("r")
		require.NoError(t, <-h.ended)
		require.Equal(t, "success", h.state("r"))
		require.Equal(t, phxworker.PhaseStopped, h.status().Phase)
		require.Equal(t, http.StatusServiceUnavailable, h.ask("POST", "/drain", "").status)
		require.Equal(t, http.StatusOK, h.ask("GET", "/livez", "").status)
	})
}

func TestTheStatusSaysThatRunsAreCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{Grace: time.Minute, Engine: phxworker.Func(deaf)}, withControls)
		h.enqueue("r")
		settle(time.Second)
		h.ask("POST", "/drain", "")
		settle(time.Second)
		require.Equal(t, "Draining: claims no more, waits for 1 run to finish.", h.status().Summary)
		settle(time.Minute)
		require.Equal(t, "Stopping: cancels 1 run, and reports that.", h.status().Summary, "its grace is over")
		require.Equal(t, phxworker.PhaseStopping, h.status().Phase)
		require.Equal(t, "stopping: the worker cancels its runs\n", h.ask("GET", "/readyz", "").body)
		require.ErrorIs(t, <-h.ended, phxworker.ErrAborted)
	})
}

// deaf is an engine that takes its time to end.
func deaf(ctx context.Context, _ *phxworker.Run) (any, error) {
	<-ctx.Done()
	time.Sleep(2 * time.Second)
	return nil, context.Cause(ctx)
}

func TestAControlThatWouldHaveNoEffectIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, withControls)
		h.enqueue("r")
		settle(time.Second)
		h.ask("POST", "/drain", "")
		settle(time.Second)
		for _, path := range []string{"/pause", "/resume", "/claim"} {
			a := h.ask("POST", path, "")
			require.Equal(t, http.StatusConflict, a.status, path)
			require.JSONEq(t, `{"error":"the worker is draining: it claims no more"}`, a.body, path)
		}
		require.Equal(t, http.StatusConflict, h.ask("PUT", "/groups/manual", `{"slots":2}`).status)
		require.Equal(t, http.StatusAccepted, h.ask("POST", "/drain", "").status, "it does")

		_, err := h.upstream.AddFault(fault.Rule{Action: fault.Withhold, Event: "run:complete"})
		require.NoError(t, err)
		h.release("r")
		settle(time.Second)
		a := h.ask("POST", "/runs/r/cancel", "")
		require.Equal(t, http.StatusConflict, a.status)
		require.JSONEq(t, `{"error":"the run has ended, and is being reported or returned to the queue"}`, a.body)
	})
}

func TestMoreSlotsTakeMoreRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{Groups: slots.MustParse("manual>*:1")}, withControls)
		h.enqueue("a", "b", "c")
		settle(time.Minute)
		require.Equal(t, 1, h.upstream.Stats().Started)
		a := h.ask("PUT", "/groups/manual%3E*", `{"slots":3}`)
		require.Equal(t, http.StatusOK, a.status)
		require.Contains(t, a.body, `"slots": 3`)
		settle(time.Minute)
		require.Equal(t, 3, h.upstream.Stats().Started)
	})
}

func TestResizeRefusesWhatItCannotRead(t *testing.T) {
	tests := []struct {
		name, group, body string
		status            int
		want              string
	}{
		{"no body", "manual%3E*", ``, 400, `the body is not like {"slots":6}`},
		{"no JSON", "manual%3E*", `slots=6`, 400, `the body is not like`},
		{"no slots", "manual%3E*", `{}`, 400, `no "slots": send a body like {"slots":6}`},
		{"another field", "manual%3E*", `{"slot":6}`, 400, `unknown field "slot"`},
		{"two values", "manual%3E*", `{"slots":6}{}`, 400, `there is something behind the object`},
		{"a text", "manual%3E*", `{"slots":"6"}`, 400, `slots must be a whole number from 1 up`},
		{"a fraction", "manual%3E*", `{"slots":1.5}`, 400, `slots must be a whole number from 1 up`},
		{"no object", "manual%3E*", `[6]`, 400, `the body is not like`},
		{"none", "manual%3E*", `{"slots":0}`, 400, `a group cannot have 0 slots: give from 1 to 1000000`},
		{"negative", "manual%3E*", `{"slots":-1}`, 400, `a group cannot have -1 slots: give from 1 to 1000000`},
		{"far too many", "manual%3E*", `{"slots":1000001}`, 400, `give 1000000 at most`},
		{"unknown group", "manual", `{"slots":6}`, 404, `there is no slot group "manual"; the groups are manual>*`},
		{"too large", "manual%3E*", `{"slots":` + strings.Repeat(" ", maxBody) + `6}`, 413, `the body is over 4096 bytes`},
	}
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, withControls)
		for _, tt := range tests {
			a := h.ask("PUT", "/groups/"+tt.group, tt.body)
			require.Equal(t, tt.status, a.status, tt.name)
			require.Contains(t, strings.ReplaceAll(a.body, `\"`, `"`), tt.want, tt.name)
		}
		require.Equal(t, 5, h.status().Groups[0].Size)
	})
}

func TestAWorkerWithoutALoopClaimsWhenItIsAskedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{Claim: phxworker.Claim{Manual: true}}, Config{}) // neither a token nor on loopback
		h.enqueue("r")
		settle(time.Hour)
		require.Zero(t, h.claims())
		require.Equal(t, Good, h.status().Health)
		require.Contains(t, h.status().Summary, "claims when it is asked to")

		a := h.ask("POST", "/claim", "")
		require.Equal(t, http.StatusOK, a.status)
		require.Equal(t, "complete", a.body)
		settle(0)
		require.Equal(t, "started", h.state("r"))

		a = h.ask("POST", "/claim", "")
		require.Equal(t, http.StatusNoContent, a.status)
		require.Empty(t, a.body)
		require.Equal(t, 2, h.claims())
		require.Equal(t, http.StatusForbidden, h.ask("POST", "/drain", "").status, "nothing else is open")
	})
}

func TestAClaimIsNotWaitedForWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{Claim: phxworker.Claim{Manual: true}}, Config{})
		_, err := h.upstream.AddFault(fault.Rule{Event: "claim", Action: fault.Delay, Delay: 10 * time.Minute})
		require.NoError(t, err)
		begin := time.Now()
		a := h.ask("POST", "/claim", "")
		require.Equal(t, http.StatusServiceUnavailable, a.status)
		require.Contains(t, a.body, "no claim was answered within 20s")
		require.Equal(t, claimPatience, time.Since(begin))
	})
}

func TestControlsOfAWorkerThatIsNotRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := build(t, phxworker.Config{}, withControls)
		for _, request := range [][2]string{{"POST", "/pause"}, {"POST", "/resume"}, {"POST", "/drain"}, {"PUT", "/groups/manual%3E*"}, {"POST", "/runs/r/cancel"}, {"POST", "/claim"}} {
			a := h.ask(request[0], request[1], `{"slots":1}`)
			require.Equal(t, http.StatusServiceUnavailable, a.status, request)
			require.JSONEq(t, `{"error":"the worker is not running"}`, a.body)
		}
	})
}
