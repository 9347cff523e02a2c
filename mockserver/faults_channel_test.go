package mockserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// open connects the client of this module.
func open(m *mocktest.Server) *channel.Socket {
	m.T.Helper()
	socket, err := channel.Open(channel.Config{
		URL: "ws://mock/worker", NetDial: m.Listener.DialContext,
		Params: func(context.Context) (url.Values, error) {
			return url.Values{"token": {mocktest.WorkerToken(m.T, m.Secret(), nil)}}, nil
		},
	})
	require.NoError(m.T, err)
	m.T.Cleanup(func() { require.NoError(m.T, socket.Close()) })
	return socket
}

// claimAndJoin takes the one run there is.
func claimAndJoin(t *testing.T, socket *channel.Socket) *channel.Topic {
	t.Helper()
	queue, err := socket.Join(t.Context(), "worker:queue", struct{}{})
	require.NoError(t, err)
	reply, err := queue.Push(t.Context(), "claim", map[string]any{"demand": 1, "worker_name": "w"})
	require.NoError(t, err)
	var claimed struct{ Runs []mocktest.ClaimedRun }
	require.NoError(t, reply.Decode(&claimed))
	require.Len(t, claimed.Runs, 1)
	run, err := socket.Join(t.Context(), "run:"+claimed.Runs[0].ID, map[string]string{"token": claimed.Runs[0].Token})
	require.NoError(t, err)
	return run
}

// What each fault of a push looks like to the client of this module: the
// error's kind, how long it took, and whether the topic had to be joined anew.
func TestFaultsAsTheChannelSeesThem(t *testing.T) {
	tests := []struct {
		name    string
		rule    fault.Rule
		unknown bool          // the push fails with ErrOutcomeUnknown
		refused string        // or with this response
		takes   time.Duration // at least
		epoch   int           // afterwards; 0 stands for 1
	}{
		{name: "drop", rule: fault.Rule{Action: fault.Drop, When: fault.After}, unknown: true, epoch: 2},
		{name: "drop before", rule: fault.Rule{Action: fault.Drop}, unknown: true, epoch: 2},
		{name: "kick", rule: fault.Rule{Action: fault.Close, When: fault.After}, unknown: true, epoch: 2},
		{name: "close", rule: fault.Rule{Action: fault.Close, Code: 1011}, unknown: true, epoch: 2},
		{name: "restart", rule: fault.Rule{Action: fault.Restart, When: fault.After, Delay: time.Minute}, unknown: true, epoch: 2},
		{name: "crash", rule: fault.Rule{Action: fault.Crash}, unknown: true, epoch: 2},
		{name: "crash after", rule: fault.Rule{Action: fault.Crash, When: fault.After}, unknown: true, epoch: 2},
		{name: "withhold", rule: fault.Rule{Action: fault.Withhold}, unknown: true, takes: 5 * time.Minute},
		{name: "withhold before", rule: fault.Rule{Action: fault.Withhold, When: fault.Before}, unknown: true, takes: 5 * time.Minute},
		{name: "refuse", rule: fault.Rule{Action: fault.Refuse, Response: []byte(`{"errors":{"state":["no"]}}`)}, refused: `{"errors":{"state":["no"]}}`},
		{name: "delay", rule: fault.Rule{Action: fault.Delay, Delay: 90 * time.Second}, takes: 90 * time.Second},
		{name: "double", rule: fault.Rule{Action: fault.Double}},
		{name: "double, late", rule: fault.Rule{Action: fault.Double, Delay: time.Second}},
		{name: "reorder", rule: fault.Rule{Action: fault.Reorder, Delay: 3 * time.Second}, takes: 3 * time.Second},
		{name: "stall", rule: fault.Rule{Action: fault.Stall, Delay: 20 * time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.rule.Event = "run:start"
				m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, Faults: []fault.Rule{tt.rule}})
				m.Queue(mockserver.Run{Plan: mocktest.Plan("r1")})
				run := claimAndJoin(t, open(m))

				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				start := time.Now()
				_, err := run.Push(ctx, "run:start", struct{}{})
				require.GreaterOrEqual(t, time.Since(start), tt.takes)
				switch {
				case tt.unknown:
					require.ErrorIs(t, err, channel.ErrOutcomeUnknown)
				case tt.refused != "":
					var refused *channel.RefusedError
					require.ErrorAs(t, err, &refused)
					require.Equal(t, tt.refused, string(refused.Response))
				default:
					require.NoError(t, err)
				}
				state, _, strikes := happened(m)
				require.Len(t, strikes, 1)
				applied := m.FaultRules()[0].When == fault.After
				require.Equal(t, applied, state == "started", state)

				synctest.Wait()
				join, err := run.Ready(t.Context())
				require.NoError(t, err)
				require.Equal(t, max(tt.epoch, 1), join.Epoch)
				_, err = run.Push(t.Context(), "run:complete", map[string]string{"reason": "success"})
				require.NoError(t, err)
				state, _, _ = happened(m)
				require.Equal(t, "success", state)
			})
		})
	}
}

func TestFaultyHeartbeatsAsTheChannelSeesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r1")})
		run := claimAndJoin(t, open(m))
		_, err := m.AddFault(fault.Rule{Event: fault.Heartbeat, Action: fault.Withhold})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		join, err := run.Ready(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2, join.Epoch)
		require.Equal(t, []any{"heartbeat", "phoenix", 1}, []any{m.Faults()[0].Event, m.Faults()[0].Topic, m.Faults()[0].Socket})
	})
}

func TestExpiredTokenAsTheChannelSeesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r1")})
		run := claimAndJoin(t, open(m))
		require.NoError(t, m.ExpireToken("r1"))
		require.NoError(t, m.Kick(1012))
		<-run.Done()
		var refused *channel.RefusedError
		require.ErrorAs(t, run.Err(), &refused)
		require.Equal(t, `{"reason":"unauthorized"}`, string(refused.Response))
	})
}

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
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, Faults: storm(), FaultSeed: 3, RunTimeout: 24 * time.Hour})
		for i := range workers * each {
			m.Queue(mockserver.Run{Plan: mocktest.Plan(fmt.Sprint("r", i))})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
		defer cancel()
		var done sync.WaitGroup
		for range workers {
			socket := open(m)
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
		var claimed struct{ Runs []mocktest.ClaimedRun }
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
