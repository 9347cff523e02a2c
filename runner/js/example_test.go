package js_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/js"
)

// A runner with this engine executes the jobs of OpenFn workflows.
func ExampleNew() {
	server, err := mockserver.Start(mockserver.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()
	socket, err := channel.Open(channel.Config{URL: server.URL(), Params: func(context.Context) (url.Values, error) {
		claims := jwt.MapClaims{"iss": "urn:openfn:worker", "iat": time.Now().Unix(), "worker_id": "example"}
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(server.Secret()))
		return url.Values{"token": {token}}, err
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = socket.Close() }()

	_, err = server.Enqueue(mockserver.Run{
		Plan:     json.RawMessage(`{"id": "run-1", "jobs": [{"id": "a", "adaptor": "@openfn/language-common@3.3.4", "body": "fn(s => ({ total: s.data.a + s.data.b }))"}]}`),
		Dataclip: json.RawMessage(`{"data": {"a": 40, "b": 2}}`),
		Queue:    "manual",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	queue, err := socket.Join(ctx, "worker:queue", map[string]int{"capacity": 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := queue.Push(ctx, "claim", map[string]any{"demand": 1, "worker_name": nil})
	if err != nil {
		fmt.Println(err)
		return
	}
	var claimed struct{ Runs []struct{ ID, Token string } }
	if err := reply.Decode(&claimed); err != nil || len(claimed.Runs) == 0 {
		fmt.Println("nothing to do", err)
		return
	}

	r := runner.New(runner.Config{Engine: js.New(js.Config{})})
	outcome := r.Run(ctx, ctx, socket, claim.Run{ID: claimed.Runs[0].ID, Token: claimed.Runs[0].Token}, nil)
	record, _ := server.Inspect(outcome.RunID)
	fmt.Println(outcome.Reason, string(record.FinalState))
	// Output:
	// success {"total":42}
}
