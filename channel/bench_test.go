package channel

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/nshafer/phx"
	"github.com/stretchr/testify/require"
)

// The three benchmarks share one server, a bare gorilla loop, over loopback
// TCP: the claim of an idle worker, and the answer that there is nothing.

var (
	benchClaim = &struct {
		Demand     int      `json:"demand"`
		WorkerName *string  `json:"worker_name"`
		Queues     []string `json:"queues"`
	}{Demand: 1, Queues: []string{"manual", "*"}}
	benchMessage = []byte(`["1","2","worker:queue","claim",{"demand":1,"worker_name":null,"queues":["manual","*"]}]`)
)

// benchServer answers every message as Phoenix would, with the least work: it
// cuts join_ref, ref and topic out of the message by their commas. All three
// clients write their frames without spaces.
func benchServer(b *testing.B) (socketURL string) {
	upgrader := websocket.Upgrader{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		var reply []byte
		for {
			_, message, err := ws.ReadMessage()
			if err != nil {
				return
			}
			head := 0
			for range 3 {
				head += bytes.IndexByte(message[head:], ',') + 1
			}
			reply = append(reply[:0], message[:head]...)
			reply = append(reply, `"phx_reply",{"response":{"runs":[]},"status":"ok"}]`...)
			if err := ws.WriteMessage(websocket.TextMessage, reply); err != nil {
				return
			}
		}
	}))
	b.Cleanup(srv.Close)
	return "ws" + strings.TrimPrefix(srv.URL, "http") + "/socket"
}

// BenchmarkEcho is the baseline: gorilla alone, writing a message made
// beforehand and reading the answer on the same goroutine.
func BenchmarkEcho(b *testing.B) {
	ws, _, err := websocket.DefaultDialer.Dial(benchServer(b), nil)
	require.NoError(b, err)
	b.Cleanup(func() { _ = ws.Close() })
	b.ReportAllocs()
	for b.Loop() {
		if err := ws.WriteMessage(websocket.TextMessage, benchMessage); err != nil {
			b.Fatal(err)
		}
		if _, _, err := ws.ReadMessage(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchTopic(b *testing.B) *Topic {
	socket, err := Open(Config{URL: benchServer(b)})
	require.NoError(b, err)
	b.Cleanup(func() { _ = socket.Close() })
	topic, err := socket.Join(context.Background(), "worker:queue", nil)
	require.NoError(b, err)
	return topic
}

// BenchmarkPush does more than the baseline: it marshals the payload, decodes
// the reply's envelope, and waits on another goroutine than the one that reads.
func BenchmarkPush(b *testing.B) {
	topic, ctx := benchTopic(b), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := topic.Push(ctx, "claim", benchClaim); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPushOverEcho measures both in turn, a hundred of each, and reports the
// ratio of the pairs' medians and of their best: on a machine that others use as
// well, two benchmarks that run one after the other compare the minutes they ran
// in.
func BenchmarkPushOverEcho(b *testing.B) {
	ws, _, err := websocket.DefaultDialer.Dial(benchServer(b), nil)
	require.NoError(b, err)
	b.Cleanup(func() { _ = ws.Close() })
	topic, ctx := benchTopic(b), context.Background()

	const batch = 100
	var echoes, pushes []float64
	for b.Loop() {
		begin := time.Now()
		for range batch {
			if err := ws.WriteMessage(websocket.TextMessage, benchMessage); err != nil {
				b.Fatal(err)
			}
			if _, _, err := ws.ReadMessage(); err != nil {
				b.Fatal(err)
			}
		}
		between := time.Now()
		for range batch {
			if _, err := topic.Push(ctx, "claim", benchClaim); err != nil {
				b.Fatal(err)
			}
		}
		echoes = append(echoes, between.Sub(begin).Seconds())
		pushes = append(pushes, time.Since(between).Seconds())
	}
	slices.Sort(echoes)
	slices.Sort(pushes)
	middle := len(echoes) / 2
	b.ReportMetric(pushes[middle]/echoes[middle], "push/echo")
	b.ReportMetric(pushes[0]/echoes[0], "best-push/echo")
	b.ReportMetric(echoes[middle]/batch*1e6, "µs/echo")
	b.ReportMetric(pushes[middle]/batch*1e6, "µs/push")
}

// BenchmarkPushParallel has many callers on one topic, as the runs of a worker
// are on one connection.
func BenchmarkPushParallel(b *testing.B) {
	topic, ctx := benchTopic(b), context.Background()
	b.ReportAllocs()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := topic.Push(ctx, "claim", benchClaim); err != nil {
				b.Fail()
				return
			}
		}
	})
}

// BenchmarkPhx is nshafer/phx doing the same. It loses a reply now and then, so
// every wait is bounded, and the loss is reported.
func BenchmarkPhx(b *testing.B) {
	endpoint, err := url.Parse(benchServer(b))
	require.NoError(b, err)
	socket := phx.NewSocket(endpoint)
	socket.Logger = phx.NewNoopLogger()
	open := make(chan struct{}, 1)
	socket.OnOpen(func() { open <- struct{}{} })
	require.NoError(b, socket.Connect())
	await(b, open)
	channel := socket.Channel("worker:queue", nil)
	join, err := channel.Join()
	require.NoError(b, err)
	joined := make(chan struct{}, 1)
	join.Receive("ok", func(any) { joined <- struct{}{} })
	await(b, joined)
	b.ReportAllocs()

	lost := 0
	replied := make(chan struct{}, 1)
	patience := time.NewTimer(time.Hour)
	for b.Loop() {
		push := phx.NewPush(channel, "claim", benchClaim, 5*time.Second)
		push.Receive("ok", func(any) { replied <- struct{}{} })
		if err := push.Send(); err != nil {
			b.Fatal(err)
		}
		patience.Reset(time.Second)
		select {
		case <-replied:
		case <-patience.C:
			lost++
		}
	}
	b.ReportMetric(float64(lost), "lost")
	_ = socket.Disconnect()
}

func await(b *testing.B, done <-chan struct{}) {
	b.Helper()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		b.Fatal("phx did not get that far in 5 s")
	}
}
