package mockserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// A run is posted and looked at, as from a shell with curl. Without a worker it
// stays available.
func ExampleStart() {
	server, err := mockserver.Start(mockserver.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()

	post := func(body string) {
		resp, err := http.Post(server.HTTPURL()+"/run?queue=manual", "application/json", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		answer, _ := io.ReadAll(resp.Body)
		fmt.Print(resp.StatusCode, " ", string(answer))
	}
	post(`{"id": "run-1", "jobs": [{"id": "a", "adaptor": "@openfn/language-common", "body": "fn(state => state)"}]}`)
	post(`{"id": "run-1", "jobs": []}`)
	post(`{"id": "run-2"}`)

	record, _ := server.Inspect("run-1")
	fmt.Println(record.State, record.Queue)
	// Output:
	// 201 {"id":"run-1"}
	// 409 {"errors":{"id":["has already been taken"]}}
	// 422 {"errors":{"jobs":["can't be blank"]}}
	// available manual
}

// A test queues runs in Go and waits for a worker to end them.
func ExampleServer_Enqueue() {
	server, err := mockserver.Start(mockserver.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()

	plan := []byte(`{"id": "run-1", "jobs": []}`)
	id, err := server.Enqueue(mockserver.Run{Plan: plan, Queue: "fast_lane", Priority: mockserver.Immediate})
	fmt.Println(id, err)
	_, err = server.Enqueue(mockserver.Run{Plan: plan})
	fmt.Println(err)
	_, err = server.Enqueue(mockserver.Run{Plan: []byte(`{"id": "run-2"}`)})
	fmt.Println(err)
	id, err = server.Enqueue(mockserver.Run{Plan: []byte(`{"jobs": []}`)})
	fmt.Println(len(id), err) // it was given one

	ctx, cancel := context.WithCancel(context.Background())
	cancel() // no worker is going to come
	_, err = server.Wait(ctx, "run-1")
	fmt.Println(err)
	// Output:
	// run-1 <nil>
	// run "run-1" exists already: choose another id, or leave it out
	// bad plan: jobs can't be blank
	// 36 <nil>
	// context canceled
}

// A test has the connection dropped between a run's end and the reply to it, and
// then looks at what struck.
func ExampleServer_AddFault() {
	server, err := mockserver.Start(mockserver.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()

	id, err := server.AddFault(fault.Rule{Event: "run:complete", Run: "run-1", Action: fault.Drop, When: fault.After})
	fmt.Println(id, err)
	_, err = server.AddFault(fault.Rule{Event: "claim", Action: fault.Delay})
	fmt.Println(err)

	// … a worker runs run-1 …

	for _, rule := range server.FaultRules() {
		fmt.Println(rule.Event, rule.Action, "struck", rule.Struck, "of", rule.Seen)
	}
	// Output:
	// 1 <nil>
	// bad fault: delay can't be blank
	// run:complete drop struck 0 of 0
}

// A run that waits can be cancelled in either mode; Dispatch returns what became of
// it.
func ExampleServer_Dispatch() {
	server, err := mockserver.Start(mockserver.Config{Mode: mockserver.Extended})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()

	cancelled := make(chan error)
	go func() { // as there is no worker here
		for server.Stats().Available == 0 {
			runtime.Gosched()
		}
		cancelled <- server.Cancel("run-1", "nobody is there")
	}()
	result, err := server.Dispatch(context.Background(), mockserver.Run{Plan: []byte(`{"id": "run-1", "jobs": []}`)})
	fmt.Println(result.State, result.ErrorMessage, err)
	fmt.Println(<-cancelled)
	fmt.Println(server.Cancel("run-1", ""))
	// Output:
	// cancelled nobody is there <nil>
	// <nil>
	// run "run-1" is cancelled: it is over already
}
