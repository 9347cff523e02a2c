package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
)

func TestCancelIsReportedToTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, withControls)
		h.enqueue("one/two", "other")
		settle(time.Second)
		a := h.ask("POST", "/runs/one%2Ftwo/cancel", "")
		require.Equal(t, http.StatusAccepted, a.status)
		require.JSONEq(t, `{"id":"one/two","cancelling":true}`, a.body)
		result, err := h.upstream.Wait(t.Context(), "one/two")
		require.NoError(t, err)
		require.Equal(t, "cancel", result.Reason)
		require.Equal(t, "started", h.state("other"))
		settle(time.Second)
		a = h.ask("POST", "/runs/one%2Ftwo/cancel", "")
		require.Equal(t, http.StatusNotFound, a.status)
		require.JSONEq(t, `{"error":"no such run is under way in this worker"}`, a.body)
	})
}

// noticed takes notices, and ends the run with the first one.
type noticed struct {
	phxworker.Func

	notices chan string
}

func (n noticed) Prepare(ctx context.Context, run *phxworker.Run) (phxworker.Execution, error) {
	execution, err := n.Func.Prepare(ctx, run)
	return listening{execution, n.notices}, err
}

type listening struct {
	phxworker.Execution

	notices chan string
}

func (l listening) Notify(_ context.Context, notice json.RawMessage) { l.notices <- string(notice) }

func TestANoticeReachesItsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := noticed{notices: make(chan string, 1)}
		engine.Func = func(context.Context, *phxworker.Run) (any, error) { return <-engine.notices, nil }
		h := start(t, phxworker.Config{Engine: engine}, withControls)
		h.enqueue("a")
		settle(time.Second)
		for body, status := range map[string]int{``: 400, `[1]`: 400, `null`: 400, `{"n":`: 400, `{"text":"` + strings.Repeat("x", 1<<20) + `"}`: 413} {
			require.Equal(t, status, h.ask("POST", "/runs/a/notify", body).status)
		}
		require.Equal(t, http.StatusNotFound, h.ask("POST", "/runs/b/notify", `{}`).status)
		a := h.ask("POST", "/runs/a/notify", `{"more":1}`)
		require.Equal(t, http.StatusOK, a.status, a.body)
		result, err := h.upstream.Wait(t.Context(), "a")
		require.NoError(t, err)
		require.JSONEq(t, `{"value":"{\"more\":1}"}`, string(result.FinalState))
	})
}

func TestARunWhoseEngineTakesNoNoticesSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, withControls)
		h.enqueue("a")
		settle(time.Second)
		require.Equal(t, http.StatusConflict, h.ask("POST", "/runs/a/notify", `{}`).status)
	})
}
