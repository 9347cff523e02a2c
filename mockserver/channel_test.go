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
)

// TestChannel takes a run to its end with the client of this module, through a
// crash of the topic and two quiet minutes.
func TestChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newInMemory(t, mockserver.Config{})
		ctx := t.Context()
		socket, err := channel.Open(channel.Config{
			URL: "ws://mock/worker", NetDial: m.listener.DialContext,
			Params: func(context.Context) (url.Values, error) {
				return url.Values{"token": {workerToken(t, m.Secret(), nil)}}, nil
			},
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, socket.Close()) }()

		queue, err := socket.Join(ctx, "worker:queue", map[string]any{"capacity": 1, "queues": map[string]int{"manual>*": 1}})
		require.NoError(t, err)
		m.enqueue(mockserver.Run{Plan: plan("go-run"), Dataclip: []byte(`{"data":{}}`)})
		require.Equal(t, "work-available", (<-queue.Messages()).Event)

		reply, err := queue.Push(ctx, "claim", map[string]any{"demand": 1, "worker_name": nil, "queues": []string{"manual", "*"}})
		require.NoError(t, err)
		var claimed struct{ Runs []claimedRun }
		require.NoError(t, reply.Decode(&claimed))
		run, err := socket.Join(ctx, "run:go-run", map[string]string{"token": claimed.Runs[0].Token})
		require.NoError(t, err)

		reply, err = run.Push(ctx, "fetch:dataclip", map[string]string{"id": "d"})
		require.NoError(t, err)
		require.True(t, reply.Binary)
		require.Equal(t, `{"data":{}}`, string(reply.Response))

		_, err = run.Push(ctx, "no-such-event", struct{}{})
		require.ErrorIs(t, err, channel.ErrOutcomeUnknown, "the topic crashed")
		_, err = run.Ready(ctx)
		require.NoError(t, err)
		var refused *channel.RefusedError
		_, err = run.Push(ctx, "step:start", struct{}{})
		require.ErrorAs(t, err, &refused)
		require.Contains(t, string(refused.Response), "step_id")

		time.Sleep(2 * time.Minute) // heartbeats keep the socket from the idle time-out
		require.Equal(t, 1, m.Stats().Sockets)

		_, err = run.Push(ctx, "run:complete", map[string]string{"reason": "success"})
		require.NoError(t, err)
		require.NoError(t, run.Leave(ctx))
		result, err := m.Wait(ctx, "go-run")
		require.NoError(t, err)
		require.Equal(t, "success", result.Reason)
	})
}
