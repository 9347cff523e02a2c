package phxworker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
)

// A worker whose runs are executed by a Go function, here against the mock
// server.
func Example() {
	server, err := mockserver.Start(mockserver.Config{})
	if err != nil {
		log.Fatal(err)
	}

	worker, err := phxworker.New(phxworker.Config{
		URL: server.URL(), Secret: server.Secret(),
		Engine: phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) {
			return map[string]any{"greeting": "hello " + run.ID}, nil
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- worker.Run(ctx) }()

	_, err = server.Enqueue(mockserver.Run{Plan: json.RawMessage(`{"id":"run-1","jobs":[{"id":"a","body":""}]}`)})
	if err != nil {
		log.Fatal(err)
	}
	result, err := server.Wait(ctx, "run-1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Reason, string(result.FinalState))

	stop() // no more claims, runs finish, then Run returns
	fmt.Println(<-stopped)
	_ = server.Close()
	// Output:
	// success {"greeting":"hello run-1"}
	// <nil>
}
