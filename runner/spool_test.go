package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner/delivery"
)

// Guards against a rejoin that is tried for ever: nobody will let this run in
// again.
func TestARunThatIsRefusedOnRejoinIsGivenUpAndSpooled(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		dir := t.TempDir()
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "step:complete", Action: fault.Drop, When: fault.Before})
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"unauthorized"}`), Count: -1})
		outcome := New(Config{Engine: Func(twoSteps), Delivery: delivery.Config{Spool: dir}}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.ErrorContains(t, outcome.Err, "unauthorized")

		all, err := readSpool(dir)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.Equal(t, []string{"r1", token}, []string{all[0].RunID, all[0].Token})
		require.Equal(t, "step:complete", all[0].Events[0].Event)
		require.Equal(t, "run:complete", all[0].Events[len(all[0].Events)-1].Event)
		info, err := os.Stat(all[0].Path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it holds a token")

		w.server.ClearFaults() // the server has changed its mind
		require.NoError(t, all[0].Resend(t.Context(), w.socket))
		require.Equal(t, "success", w.result("r1").Reason)
		require.NoFileExists(t, all[0].Path)
	})
}

// Guards against a log and a spool that call delivered what the server has refused.
func TestWhatWasRefusedWasNotDelivered(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		dir := t.TempDir()
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "step:start", Action: fault.Refuse, Response: json.RawMessage(`{"job_id":["is invalid"]}`), Count: -1})
		w.fail(fault.Rule{Event: "run:complete", Action: fault.Drop, When: fault.Before})
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`)})
		New(Config{Engine: Func(twoSteps), Delivery: delivery.Config{Spool: dir}}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		all, err := readSpool(dir)
		require.NoError(t, err)
		record, _ := w.server.Inspect("r1")
		taken := 0
		for _, e := range record.Events {
			if e.Status == "ok" && !strings.HasPrefix(e.Event, "fetch:") {
				taken++
			}
		}
		require.Positive(t, taken)
		require.Equal(t, taken, all[0].Delivered)
	})
}

// Guards against a run of which nothing is kept: its worker was stopped before the server had let it onto the topic.
func TestTheEndOfARunThatWasNeverJoinedIsSpooled(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		dir := t.TempDir()
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Action: fault.Crash, Count: -1})
		work, stop := context.WithCancel(t.Context())
		report, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		time.AfterFunc(time.Second, stop)
		r := New(Config{Engine: Func(twoSteps), Delivery: delivery.Config{Spool: dir}})
		outcome := r.Run(work, report, w.socket, claim.Run{ID: id, Token: token}, nil)
		require.Equal(t, Undelivered, outcome.Settled)
		require.Equal(t, map[string]uint64{"run:log": 2, "run:complete": 1}, r.Stats().Undelivered)
		require.False(t, outcome.Refused, "it was not waited for")

		all, err := readSpool(dir)
		require.NoError(t, err)
		require.Len(t, all, 1)
		w.server.ClearFaults()
		require.NoError(t, all[0].Resend(t.Context(), w.socket))
		require.Equal(t, "cancel", w.result("r1").Reason)
		require.Equal(t, string(outcome.Reason), w.result("r1").Reason)
	})
}

// Guards against a run of which nothing is kept: the server has taken all of it but for its end.
func TestAnEndThatIsRefusedIsSpooledWhole(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		dir := t.TempDir()
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "run:complete", Action: fault.Refuse, Response: json.RawMessage(`{"state":["is invalid"]}`), Count: -1})
		r := New(Config{Engine: Func(twoSteps), Delivery: delivery.Config{Spool: dir}})
		outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.Equal(t, Undelivered, outcome.Settled)
		require.Equal(t, map[string]uint64{"run:complete": 1}, r.Stats().Undelivered)

		w.server.ClearFaults() // somebody has mended it
		all, err := readSpool(dir)
		require.NoError(t, err)
		require.Len(t, all, 1)
		require.NoError(t, all[0].Resend(t.Context(), w.socket))
		result := w.result("r1")
		require.Equal(t, "success", result.Reason)
		require.JSONEq(t, `{"data":{"x":2}}`, string(result.FinalState))
	})
}

// Guards against a line about what was left out that is lost, with nobody counting it.
func TestWhatTheLogShouldBeToldIsSpooledToo(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		dir := t.TempDir()
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "step:complete", Action: fault.Refuse, Response: json.RawMessage(`{"output_dataclip":["is invalid"]}`), Count: 2}) // in both forms
		w.fail(fault.Rule{Event: "run:log", Skip: 1, Action: fault.Drop, When: fault.Before})
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`), Count: -1})
		r := New(Config{Engine: Func(twoSteps), Delivery: delivery.Config{Spool: dir}})
		r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		all, err := readSpool(dir)
		require.NoError(t, err)
		require.Equal(t, []string{"run:log", "step:complete"}, []string{all[0].Events[0].Event, all[0].Events[1].Event})
		require.Contains(t, string(all[0].Events[0].Payload), "left out")
		total := uint64(0)
		for _, n := range r.Stats().Undelivered {
			total += n
		}
		require.EqualValues(t, len(all[0].Events), total)
	})
}

// Guards against a run whose end is not spooled because of a line in front of it.
func TestWhatIsNoJSONIsSpooledWithoutIt(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		w.fail(fault.Rule{Event: "run:start", Action: fault.Drop, When: fault.Before})
		w.fail(fault.Rule{Event: fault.Join, Run: "r1", Skip: 1, Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_found"}`)})
		dir := t.TempDir()
		New(Config{Delivery: delivery.Config{Spool: dir}, Engine: Func(func(_ context.Context, run *Run) (any, error) {
			run.Log(Line{Message: []json.RawMessage{json.RawMessage("not json")}})
			return nil, nil
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		all, err := readSpool(dir)
		require.NoError(t, err)
		require.Len(t, all, 1)
		var names []string
		for _, e := range all[0].Events {
			names = append(names, e.Event)
		}
		require.Equal(t, []string{"run:start", "run:log", "run:log", "run:complete"}, names)
		require.Contains(t, string(all[0].Events[1].Payload), "it was left out")
	})
}

// spooled writes a spool file of the run with these events.
func spooled(t *testing.T, id, token string, events ...delivery.SpooledEvent) delivery.Spooled {
	t.Helper()
	s := delivery.Spooled{RunID: id, Token: token, Events: events, Path: filepath.Join(t.TempDir(), "r1.json")}
	data, err := json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.Path, data, 0o600))
	return s
}

var (
	unknownStep = delivery.SpooledEvent{Event: "run:log", Payload: json.RawMessage(`{"message":["lost"],"timestamp":"1","step_id":"00000000-0000-4000-8000-000000000000"}`)}
	theEnd      = delivery.SpooledEvent{Event: "run:complete", Payload: json.RawMessage(`{"reason":"success","error_type":null,"error_message":null}`)}
)

// A file goes when the server has all that is in it, and no sooner.
func TestASpooledRunIsKeptUntilTheServerHasIt(t *testing.T) {
	t.Run("refused in part", func(t *testing.T) {
		onWire(t, func(t *testing.T, w *wire) {
			id, token := w.claim(planOf(""))
			s := spooled(t, id, token, unknownStep, theEnd)
			require.Error(t, s.Resend(t.Context(), w.socket))
			require.Equal(t, "success", w.result("r1").Reason)
			all, err := readSpool(filepath.Dir(s.Path))
			require.NoError(t, err)
			require.Len(t, all[0].Events, 1, "what the server has goes out of it")
			require.Equal(t, "run:log", all[0].Events[0].Event)
		})
	})
	for _, sent := range []bool{true, false} {
		t.Run(fmt.Sprint("there already, sent before: ", sent), func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				id, token := w.claim(planOf(""))
				end := theEnd
				end.Sent = sent
				s := spooled(t, id, token, end)
				w.fail(fault.Rule{Event: "run:complete", Action: fault.Refuse, Response: json.RawMessage(`{"errors":{"state":["already in completed state"]}}`)})
				if sent {
					require.NoError(t, s.Resend(t.Context(), w.socket))
					require.NoFileExists(t, s.Path)
					return
				}
				require.ErrorContains(t, s.Resend(t.Context(), w.socket), "already in completed state")
				require.FileExists(t, s.Path, "the server has another end, and this may be the last copy of the output")
			})
		})
	}
	t.Run("not answered", func(t *testing.T) {
		onWire(t, func(t *testing.T, w *wire) {
			id, token := w.claim(planOf(""))
			s := spooled(t, id, token, theEnd)
			w.fail(fault.Rule{Event: "run:complete", Action: fault.Withhold, When: fault.Before})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
			defer cancel()
			require.ErrorIs(t, s.Resend(ctx, w.socket), context.DeadlineExceeded)
			require.FileExists(t, s.Path)
		})
	})
	t.Run("not let in", func(t *testing.T) {
		onWire(t, func(t *testing.T, w *wire) {
			s := spooled(t, "nobody", "token", theEnd)
			require.ErrorContains(t, s.Resend(t.Context(), w.socket), "not_found")
			require.FileExists(t, s.Path)
		})
	})
}
