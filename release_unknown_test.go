package phxworker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// once is an engine that gives a run back the first time, after something was done.
func once(do func(run *Run)) Engine {
	var tried atomic.Bool
	return Func(func(_ context.Context, run *Run) (any, error) {
		if tried.Swap(true) {
			return nil, nil
		}
		do(run)
		return nil, ErrRequeue
	})
}

func nothing(*Run) {}

// Guards against a run that was returned, and whose end is then reported as well,
// or that stays with this worker, because the connection was lost with the answer.
func TestAReleaseWhoseOutcomeIsUnknownIsMadeAgain(t *testing.T) {
	for _, when := range []fault.When{fault.Before, fault.After} {
		t.Run("lost "+string(when), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				h.fail(fault.Rule{Event: "run:release", Action: fault.Drop, When: when})
				worker, _ := h.hire(all(Config{Groups: slots.MustParse("manual:1"), Engine: once(nothing)}))
				settle(time.Minute)
				require.Len(t, h.sent("run:release"), 2)
				require.Equal(t, uint64(1), worker.Stats().Delivery.Settled[runner.Requeued])
				require.Equal(t, "success", h.state("a"))
				require.Equal(t, 2, h.record("a").Attempt, "it was returned once")
				require.Len(t, h.sent("run:complete"), 1, "for the second attempt")
			})
		})
	}
}

// Guards against a run that is lost because a release which failed is taken for one
// that had arrived before.
func TestAReleaseThatIsNotTakenIsReportedAsAnException(t *testing.T) {
	for _, rule := range []fault.Rule{
		{Action: fault.Refuse, Response: json.RawMessage(`{"reason":"not_claimed"}`)},
		{Action: fault.Crash, When: fault.Before}, // after which there is no such extension
	} {
		t.Run(string(rule.Action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				rule.Event = "run:release"
				h.fail(rule)
				worker, _ := h.hire(all(Config{Groups: slots.MustParse("manual:1"), Engine: once(func(*Run) {
					time.Sleep(time.Millisecond) // so that the release is alone, and the crash its own
				})}))
				settle(time.Minute)
				record := h.record("a")
				require.Equal(t, "exception Requeued", record.Reason+" "+record.ErrorType)
				require.Zero(t, worker.Stats().Delivery.Settled[runner.Requeued])
				require.Len(t, h.sent("run:release"), 1)
			})
		})
	}
}

func TestARunIsGivenBackOnceTheConnectionIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		h.enqueue("manual", "a")
		var events *Subscription
		worker, _ := h.hireWith(all(Config{Groups: slots.MustParse("manual:1"), Engine: once(func(*Run) {
			h.fail(fault.Rule{Event: fault.Connect, Action: fault.Refuse, Count: 2})
			h.cut()
			time.Sleep(time.Millisecond) // until it has been noticed
		})}), func(w *Worker) { events = w.Subscribe(100) })
		settle(20 * time.Second)
		require.Equal(t, uint64(1), worker.Stats().Delivery.Settled[runner.Requeued])
		require.Len(t, h.sent("run:release"), 1)
		for e := range events.Events() {
			if e.Result != nil {
				require.Equal(t, EventReturned, e.Kind)
				break
			}
		}
	})
}

// Guards against lines that are lost with the topic, which the server closes as it
// takes the run back.
func TestARunIsGivenBackOnceItsLinesHaveArrived(t *testing.T) {
	tests := []struct {
		name     string
		delay    time.Duration // of each answer
		released bool
	}{
		{name: "late", delay: time.Second, released: true},
		{name: "too late", delay: 40 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := extended(t, mockserver.Config{})
				h.enqueue("manual", "a")
				h.fail(fault.Rule{Event: "run:log", Action: fault.Delay, Delay: tt.delay, Count: 3})
				h.hire(all(Config{Groups: slots.MustParse("manual:1"), Engine: once(func(run *Run) {
					for i := range 3 {
						run.Print(fmt.Sprint("line ", i))
					}
				})}))
				settle(3*tt.delay + time.Minute)
				lines, releases := h.sent("run:log"), h.sent("run:release")
				for i := range 3 {
					said := func(f sentFrame) bool { return strings.Contains(f.payload, fmt.Sprint("line ", i)) }
					require.True(t, slices.ContainsFunc(lines, said), "line %d", i)
				}
				if !tt.released {
					require.Empty(t, releases, "nobody knows what the server has of it")
					require.Equal(t, "Requeued", h.record("a").ErrorType)
					return
				}
				require.Len(t, releases, 1)
				require.Equal(t, tt.delay, releases[0].at.Sub(lines[2].at), "once the last was answered")
			})
		})
	}
}
