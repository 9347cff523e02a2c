package mockserver_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// storm is every action at once, each with a chance.
func storm() []fault.Rule {
	var rules []fault.Rule
	for _, r := range []fault.Rule{
		{Action: fault.Drop},
		{Action: fault.Drop, When: fault.After},
		{Action: fault.Close, Code: 1011},
		{Action: fault.Crash},
		{Action: fault.Crash, When: fault.After},
		{Action: fault.Withhold},
		{Action: fault.Withhold, When: fault.Before},
		{Action: fault.Refuse, Event: "run:start", Response: []byte(`"no"`)},
		{Action: fault.Delay, Delay: 7 * time.Second},
		{Action: fault.Double, Delay: time.Second},
		{Action: fault.Double},
		{Action: fault.Reorder},
		{Action: fault.Stall, Delay: 9 * time.Second},
		{Action: fault.Restart, When: fault.After, Delay: 3 * time.Second},
		{Action: fault.Restart, Code: 1006},
		{Action: fault.Refuse, Event: fault.Connect},
		{Action: fault.Drop, Event: fault.Connect},
		{Action: fault.Delay, Event: fault.Connect, Delay: time.Second},
	} {
		r.Probability = 0.02
		rules = append(rules, r)
	}
	return rules
}

// A storm of all faults must break neither the server nor its books: with a
// client that tries for long enough, each run starts and ends exactly once on
// record, and Close ends everything.
func TestStormOfFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, each = 6, 24
		m := newInMemory(t, mockserver.Config{OpaqueTokens: true, Faults: storm(), FaultSeed: 3, RunTimeout: 24 * time.Hour})
		for i := range workers * each {
			m.enqueue(mockserver.Run{Plan: plan(fmt.Sprint("r", i))})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
		defer cancel()
		var done sync.WaitGroup
		for range workers {
			socket := m.open()
			done.Go(func() { weather(ctx, socket, each) })
		}
		done.Wait()
		require.NoError(t, ctx.Err(), "the storm was not weathered in time")

		stats := m.Stats()
		var struck int64
		for _, n := range stats.Faults {
			struck += n
		}
		require.Len(t, m.Faults(), int(struck))
		require.Greater(t, struck, int64(100), "hardly a storm")
		require.EqualValues(t, stats.Enqueued, stats.Available+stats.Claimed+stats.Started+int(stats.Ended["success"]))
		require.Zero(t, stats.Started)
		for i := range workers * each {
			r, _ := m.Inspect(fmt.Sprint("r", i))
			var ended int
			for _, e := range r.Events {
				if e.Event == "run:complete" && e.Status == "ok" {
					ended++
				}
			}
			require.Equal(t, r.State == "success", ended == 1, "run %d: %v", i, r.Events)
		}
	})
}

// weather claims n times and takes what it gets from its join to its end, again
// and again until the server says that it has it.
func weather(ctx context.Context, socket *channel.Socket, n int) {
	queue := join(ctx, socket, "worker:queue", "")
	for queue != nil && ctx.Err() == nil && n > 0 {
		attempt, cancel := context.WithTimeout(ctx, time.Minute)
		_, _ = queue.Ready(attempt)
		reply, err := queue.Push(attempt, "claim", map[string]any{"demand": 1, "worker_name": nil})
		cancel()
		if errors.Is(err, channel.ErrNotSent) {
			continue
		}
		n-- // a claim with no reply has lost its run
		var claimed struct{ Runs []claimedRun }
		if err != nil || reply.Decode(&claimed) != nil || len(claimed.Runs) == 0 {
			continue
		}
		run := join(ctx, socket, "run:"+claimed.Runs[0].ID, claimed.Runs[0].Token)
		if run == nil {
			return // out of time
		}
		push(ctx, run, "run:start")
		push(ctx, run, "run:complete")
		_ = run.Leave(ctx)
	}
}

// join joins until it has, or returns nil when there is no time left.
func join(ctx context.Context, socket *channel.Socket, name, token string) *channel.Topic {
	for ctx.Err() == nil {
		topic, err := socket.Join(ctx, name, map[string]string{"token": token})
		if err == nil {
			return topic
		}
	}
	return nil
}

// push sends an event until it was answered, or refused as being there already.
func push(ctx context.Context, run *channel.Topic, event string) {
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, time.Minute)
		_, _ = run.Ready(attempt)
		_, err := run.Push(attempt, event, map[string]string{"reason": "success"})
		cancel()
		refused, ok := errors.AsType[*channel.RefusedError](err)
		if err == nil || ok && string(refused.Response) == `{"state":["already in completed state"]}` {
			return
		}
	}
}
