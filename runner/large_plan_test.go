package runner

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
)

// Guards against as many large plans in memory as there are slots.
func TestLargePlansAreInMemoryInTurn(t *testing.T) {
	if testing.Short() {
		t.Skip("megabytes of text, which the race detector reads slowly")
	}
	onWire(t, func(t *testing.T, w *wire) {
		p := newLargePlans(w, Config{})
		p.start("first", nil)
		p.start("second", nil)
		p.startWith("small", "", nil)
		require.Equal(t, []string{"first", "small"}, p.begun)
		require.Len(t, w.events("second", "fetch:plan"), 1)

		close(p.goOn)
		for range 3 {
			require.NoError(t, (<-p.ended).Err)
		}
		require.Equal(t, []string{"first", "small", "second"}, p.begun)
		require.Len(t, w.events("second", "fetch:plan"), 2, "it was not kept meanwhile")
		require.True(t, p.r.plans.TryAcquire(roomInTests), "all of it is free")
	})
}

// roomInTests is for one plan just above what is small, and not for two.
const roomInTests = 2 * smallPlan

// largePlans starts runs with large plans, of which one is in memory at a time. Their engine waits for goOn.
type largePlans struct {
	*wire

	r     *Runner
	begun []string
	goOn  chan struct{}
	ended chan Outcome
}

func newLargePlans(w *wire, cfg Config) *largePlans {
	p := &largePlans{wire: w, goOn: make(chan struct{}), ended: make(chan Outcome, 10)}
	cfg.Engine = Func(func(_ context.Context, run *Run) (any, error) {
		p.begun = append(p.begun, run.ID)
		<-p.goOn
		return nil, nil
	})
	p.r = New(cfg)
	p.r.plans.TryAcquire(maxPlan - roomInTests)
	return p
}

func (p *largePlans) start(id string, begin <-chan error) {
	p.startWith(id, `,"name":"`+strings.Repeat("n", smallPlan)+`"`, begin)
}

func (p *largePlans) startWith(id, more string, begin <-chan error) {
	run := planOf(more)
	run.Plan = []byte(strings.Replace(string(run.Plan), `"r1"`, `"`+id+`"`, 1))
	id, token := p.claim(run)
	go func() {
		p.ended <- p.r.Run(p.t.Context(), p.t.Context(), p.socket, claim.Run{ID: id, Token: token}, begin)
	}()
	synctest.Wait()
}

// Guards against a run that waits in its slot until its token is over, and is then said to have run for too long.
func TestALargePlanWaitsForRoomOnlySoLong(t *testing.T) {
	for _, takes := range []bool{false, true} {
		onWire(t, func(t *testing.T, w *wire) {
			queue := &takesBack{}
			cfg := Config{Limits: Limits{RunTimeout: time.Hour}}
			if takes {
				cfg.Releaser = queue
			}
			p := newLargePlans(w, cfg)
			p.start("first", nil)
			began := time.Now()
			p.start("second", nil)
			second := <-p.ended
			require.Equal(t, 5*time.Minute, time.Since(began).Round(time.Second))
			why := "other large plans have left no room for this one, of 1048654 bytes, for 5m0s"
			if takes {
				require.Equal(t, []any{Postponed, why}, []any{second.Settled, second.Message})
				require.Equal(t, ReleasePostpone, queue.released[0].Reason)
				require.Positive(t, queue.released[0].DelayMS)
			} else {
				require.Contains(t, w.result("second").ErrorMessage, why)
			}
			close(p.goOn)
			require.Equal(t, Success, (<-p.ended).Reason)
			require.Equal(t, []string{"first"}, p.begun)
		})
	}
}

// Guards against a run that waits for a slot and has the room that the run in the slot waits for.
func TestARunThatIsClaimedAheadTakesNoRoomForItsPlan(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		p := newLargePlans(w, Config{})
		begin := make(chan error, 1)
		p.start("ahead", begin)
		p.start("in its slot", nil)
		require.Equal(t, []string{"in its slot"}, p.begun)
		p.goOn <- struct{}{}
		require.Equal(t, "in its slot", (<-p.ended).RunID)
		begin <- nil
		p.goOn <- struct{}{}
		require.Equal(t, Success, (<-p.ended).Reason)
		require.Equal(t, []string{"in its slot", "ahead"}, p.begun)
		require.Len(t, w.events("ahead", "fetch:plan"), 2, "it was not kept meanwhile")
	})
}
