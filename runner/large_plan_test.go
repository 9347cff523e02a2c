package runner

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
)

// Guards against as many large plans in memory as there are slots.
func TestLargePlansAreInMemoryInTurn(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of text, which the race detector reads slowly")
	}
	onWire(t, func(t *testing.T, w *wire) {
		goOn := make(chan struct{})
		var begun []string
		r := New(Config{Engine: Func(func(_ context.Context, run *Run) (any, error) {
			begun = append(begun, run.ID)
			<-goOn
			return nil, nil
		})})
		ended := make(chan Outcome)
		start := func(id, more string) {
			run := planOf(more)
			run.Plan = []byte(strings.Replace(string(run.Plan), `"r1"`, `"`+id+`"`, 1))
			id, token := w.claim(run)
			go func() { ended <- r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil) }()
			synctest.Wait()
		}
		large := `,"name":"` + strings.Repeat("n", maxPlan*2/3) + `"`
		start("first", large)
		start("second", large)
		start("small", "")
		require.Equal(t, []string{"first", "small"}, begun)
		require.Len(t, w.events("second", "fetch:plan"), 1)

		goOn <- struct{}{}
		goOn <- struct{}{}
		goOn <- struct{}{}
		for range 3 {
			require.NoError(t, (<-ended).Err)
		}
		require.Equal(t, []string{"first", "small", "second"}, begun)
		require.Len(t, w.events("second", "fetch:plan"), 2, "it was not kept meanwhile")
		require.True(t, r.plans.TryAcquire(maxPlan), "all of it is free")
	})
}
