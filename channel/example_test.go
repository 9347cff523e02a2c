package channel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/mockserver"
)

// Join a topic, push an event and read the reply.
func Example() {
	server := newPhoenix()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	socket, err := channel.Open(channel.Config{
		URL: server.URL + "/socket", // without /websocket
		Params: func(context.Context) (url.Values, error) {
			return url.Values{"token": {"a fresh one for every dial"}}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()

	room, err := socket.Join(ctx, "room:lobby", map[string]any{"name": "ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := room.Push(ctx, "sum", []int{1, 2, 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	var sum int
	if err := reply.Decode(&sum); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("sum:", sum)
	// Output: sum: 6
}

// The three ways a push can fail call for three answers.
func ExampleTopic_Push() {
	server := newPhoenix()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	socket, err := channel.Open(channel.Config{URL: server.URL + "/socket"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()
	room, err := socket.Join(ctx, "room:lobby", nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	for _, event := range []string{"sum", "nonsense", "crash"} {
		_, err := room.Push(ctx, event, []int{1})
		var refused *channel.RefusedError
		switch {
		case err == nil:
			fmt.Println(event, "is done")
		case errors.As(err, &refused):
			fmt.Println(event, "was refused:", refused.Reason())
		case errors.Is(err, channel.ErrNotSent):
			fmt.Println(event, "can be sent again")
		case errors.Is(err, channel.ErrOutcomeUnknown):
			fmt.Println(event, "may have been done or not")
		}
	}
	// The channel crashed, and is joined again by itself.
	join, err := room.Ready(ctx)
	fmt.Println("joined", join.Epoch, "times", err)
	// Output:
	// sum is done
	// nonsense was refused: unknown event
	// crash may have been done or not
	// joined 2 times <nil>
}

// What the server pushes comes in order, until the topic ends.
func ExampleTopic_Messages() {
	server := newPhoenix()
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	socket, err := channel.Open(channel.Config{URL: server.URL + "/socket"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()
	room, err := socket.Join(ctx, "room:lobby", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _, _ = room.Push(ctx, "count", nil) }()
	for {
		select {
		case m := <-room.Messages():
			fmt.Println(m.Event, string(m.Payload))
			if string(m.Payload) == "3" {
				_ = room.Leave(ctx)
			}
		case <-room.Done():
			fmt.Println("ended:", room.Err())
			return
		}
	}
	// Output:
	// tick 1
	// tick 2
	// tick 3
	// ended: the topic was left
}

// What must not be lost while the connection is made anew waits for that, as long
// as its context lasts.
func ExampleTopic_PushWhenReady() {
	server := newPhoenix()
	defer server.Close()
	socket, err := channel.Open(channel.Config{URL: server.URL + "/socket"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	room, err := socket.Join(ctx, "room:lobby", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = room.Push(ctx, "crash", nil) // and the topic is joined anew
	fmt.Println("unknown:", errors.Is(err, channel.ErrOutcomeUnknown))
	reply, err := room.PushWhenReady(ctx, "sum", []int{1, 2, 3})
	fmt.Println("sum:", string(reply.Response), err)
	_, err = room.PushWhenReady(ctx, "nonsense", nil)
	fmt.Println("refused:", errors.As(err, new(*channel.RefusedError)))
	_ = room.Leave(ctx)
	_, err = room.PushWhenReady(ctx, "sum", []int{1})
	fmt.Println("not sent:", errors.Is(err, channel.ErrNotSent))
	// Output:
	// unknown: true
	// sum: 6 <nil>
	// refused: true
	// not sent: true
}

// A server that refuses the token says so at once, and Join returns that. The socket goes on
// trying, in case the token gets better.
func ExampleSocket_Join() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden) // as Phoenix does when connect/3 says :error
	}))
	defer server.Close()
	socket, err := channel.Open(channel.Config{URL: server.URL + "/socket"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()
	_, err = socket.Join(context.Background(), "room:lobby", nil)
	if dial, ok := errors.AsType[*channel.DialError](err); ok {
		fmt.Println(dial.Status, dial.Refused())
	}
	status, _ := socket.Status()
	fmt.Println(status.State)
	// Output:
	// 403 true
	// connecting
}

// A worker's token for OpenFn Lightning: HS256 over the bytes of WORKER_SECRET, with three
// claims. A token is made for every dial, so none gets old.
func ExampleConfig() {
	lightning, err := mockserver.Start(mockserver.Config{Secret: "WORKER_SECRET"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lightning.Close()
	socket, err := channel.Open(channel.Config{
		URL: lightning.URL(), // of a real one: wss://app.example.org/worker
		Params: func(context.Context) (url.Values, error) {
			token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
				"iss":       "urn:openfn:worker",
				"iat":       time.Now().Unix(),
				"worker_id": "my-worker",
			}).SignedString([]byte("WORKER_SECRET"))
			return url.Values{"token": {token}, "api_version": {"1.2"}, "worker_version": {"1.0.0"}}, err
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()
	queue, err := socket.Join(context.Background(), "worker:queue", map[string]any{"capacity": 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := queue.Push(context.Background(), "claim", map[string]any{"demand": 1, "worker_name": nil})
	fmt.Println(string(reply.Response), err)
	// Output: {"runs":[]} <nil>
}

// newPhoenix is as much of a Phoenix server as the examples need.
func newPhoenix() *httptest.Server {
	upgrader := websocket.Upgrader{}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		for {
			var frame [5]json.RawMessage // join_ref, ref, topic, event, payload
			if ws.ReadJSON(&frame) != nil {
				return
			}
			joinRef, ref, topic := frame[0], frame[1], frame[2]
			reply := func(status string, response any) {
				_ = ws.WriteJSON([]any{joinRef, ref, topic, "phx_reply", map[string]any{"status": status, "response": response}})
			}
			switch string(frame[3]) {
			case `"phx_join"`, `"phx_leave"`, `"heartbeat"`:
				reply("ok", struct{}{})
			case `"sum"`:
				var numbers []int
				_ = json.Unmarshal(frame[4], &numbers)
				sum := 0
				for _, n := range numbers {
					sum += n
				}
				reply("ok", sum)
			case `"count"`:
				for n := 1; n <= 3; n++ {
					_ = ws.WriteJSON([]any{nil, nil, topic, "tick", n})
				}
			case `"crash"`:
				_ = ws.WriteJSON([]any{joinRef, joinRef, topic, "phx_error", struct{}{}})
			default:
				reply("error", map[string]string{"reason": "unknown event"})
			}
		}
	}))
}
