package mockserver_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

const slots = 90

// BenchmarkRuns takes runs from claim to leave over TCP, as many at a time as a
// large worker has slots: what a benchmark of a whole worker can reach at
// best. One operation is a run, which is six pushes and their replies.
func BenchmarkRuns(b *testing.B) {
	b.ReportAllocs()
	s := mockserver.NewTest(b, mockserver.Config{OpaqueTokens: true, WakeDebounce: -1, KeepRuns: 1000, MaxQueued: -1, Logger: slog.New(slog.DiscardHandler)})
	token := s.WorkerToken("w")
	ctx := context.Background()
	socket, err := channel.Open(channel.Config{
		URL: s.URL(), Params: func(context.Context) (url.Values, error) { return url.Values{"token": {token}}, nil },
	})
	require.NoError(b, err)
	defer func() { require.NoError(b, socket.Close()) }()
	queue, err := socket.Join(ctx, "worker:queue", struct{}{})
	require.NoError(b, err)
	for i := range b.N {
		_, err := s.Enqueue(mockserver.Run{Plan: mocktest.Plan(fmt.Sprint("r", i))})
		require.NoError(b, err)
	}

	b.ResetTimer()
	inParallel(b, func() error { return oneRun(ctx, socket, queue) })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
	require.EqualValues(b, b.N, s.Stats().Ended["success"])
}

func oneRun(ctx context.Context, socket *channel.Socket, queue *channel.Topic) error {
	claim := map[string]any{"demand": 1, "worker_name": nil, "queues": []string{"manual", "*"}}
	reply, err := queue.Push(ctx, "claim", claim)
	if err != nil {
		return err
	}
	var claimed struct{ Runs []mocktest.ClaimedRun }
	if err := reply.Decode(&claimed); err != nil || len(claimed.Runs) != 1 {
		return fmt.Errorf("claimed %v: %w", claimed, err)
	}
	run, err := socket.Join(ctx, "run:"+claimed.Runs[0].ID, map[string]string{"token": claimed.Runs[0].Token})
	if err != nil {
		return err
	}
	for _, event := range []string{"fetch:plan", "run:start", "run:complete"} {
		if _, err := run.Push(ctx, event, map[string]string{"reason": "success"}); err != nil {
			return err
		}
	}
	return run.Leave(ctx)
}

// BenchmarkRunsBaseline sends as many messages through a bare websocket echo,
// in lockstep on each of as many connections.
func BenchmarkRunsBaseline(b *testing.B) {
	b.ReportAllocs()
	var upgrader websocket.Upgrader
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for {
			kind, data, err := conn.ReadMessage()
			if err != nil || conn.WriteMessage(kind, data) != nil {
				return
			}
		}
	}))
	defer echo.Close()
	conns := make(chan *websocket.Conn, slots)
	for range slots {
		conn, resp, err := websocket.DefaultDialer.Dial(strings.Replace(echo.URL, "http", "ws", 1), nil)
		require.NoError(b, err)
		require.NoError(b, resp.Body.Close())
		conns <- conn
	}
	message := []byte(`["1","7","run:r1","run:start",{"timestamp":"1795168192891559"}]`)

	b.ResetTimer()
	inParallel(b, func() error {
		conn := <-conns
		defer func() { conns <- conn }()
		for range 6 {
			if err := conn.WriteMessage(websocket.TextMessage, message); err != nil {
				return err
			}
			if _, _, err := conn.ReadMessage(); err != nil {
				return err
			}
		}
		return nil
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
	for range slots {
		require.NoError(b, (<-conns).Close())
	}
}

// inParallel does b.N operations, slots at a time.
func inParallel(b *testing.B, op func() error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var done sync.WaitGroup
	for range slots {
		done.Go(func() {
			for left.Add(-1) >= 0 {
				if err := op(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
}
