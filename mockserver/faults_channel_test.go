package mockserver_test

import (
	"context"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// open connects the client of this module.
func (m *inMemory) open() *channel.Socket {
	m.t.Helper()
	socket, err := channel.Open(channel.Config{
		URL: "ws://mock/worker", NetDial: m.listener.DialContext,
		Params: func(context.Context) (url.Values, error) {
			return url.Values{"token": {workerToken(m.t, m.Secret(), nil)}}, nil
		},
	})
	require.NoError(m.t, err)
	m.t.Cleanup(func() { require.NoError(m.t, socket.Close()) })
	return socket
}

// claimAndJoin takes the one run there is.
func claimAndJoin(t *testing.T, socket *channel.Socket) *channel.Topic {
	t.Helper()
	queue, err := socket.Join(t.Context(), "worker:queue", struct{}{})
	require.NoError(t, err)
	reply, err := queue.Push(t.Context(), "claim", map[string]any{"demand": 1, "worker_name": "w"})
	require.NoError(t, err)
	var claimed struct{ Runs []claimedRun }
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
				m := newInMemory(t, mockserver.Config{OpaqueTokens: true, Faults: []fault.Rule{tt.rule}})
				m.enqueue(mockserver.Run{Plan: plan("r1")})
				run := claimAndJoin(t, m.open())

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
		m := newInMemory(t, mockserver.Config{OpaqueTokens: true})
		m.enqueue(mockserver.Run{Plan: plan("r1")})
		run := claimAndJoin(t, m.open())
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
		m := newInMemory(t, mockserver.Config{OpaqueTokens: true})
		m.enqueue(mockserver.Run{Plan: plan("r1")})
		run := claimAndJoin(t, m.open())
		require.NoError(t, m.ExpireToken("r1"))
		require.NoError(t, m.Kick(1012))
		<-run.Done()
		var refused *channel.RefusedError
		require.ErrorAs(t, run.Err(), &refused)
		require.Equal(t, `{"reason":"unauthorized"}`, string(refused.Response))
	})
}
