package phxworker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
)

// withOneRun starts a mock server with a run in its queue, and returns the
// configuration of a worker for it.
func withOneRun() (*mockserver.Server, phxworker.Config) {
	server, err := mockserver.Start(mockserver.Config{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = server.Enqueue(mockserver.Run{Plan: json.RawMessage(`{"id":"run-1","jobs":[{"id":"a","body":""}]}`)})
	if err != nil {
		log.Fatal(err)
	}
	return server, phxworker.Config{
		URL: server.URL(), Secret: server.Secret(),
		Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return "done", nil }),
	}
}

// A program that wants to know what its worker does subscribes to the worker's
// events. The stream ends when the worker has stopped.
func ExampleWorker_Subscribe() {
	server, cfg := withOneRun()
	worker, err := phxworker.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	events := worker.Subscribe(100)
	go func() { _ = worker.Run(context.Background()) }()

	for event := range events.Events() {
		fmt.Println(event.Kind)
		if event.Kind == phxworker.EventCompleted {
			fmt.Println(event.RunID, event.Result.Reason)
			worker.Drain()
		}
	}
	_ = server.Close()
	// Output:
	// connected
	// run_claimed
	// run_started
	// run_completed
	// run-1 success
	// draining
}

// Middleware is around the execution of every run: to give it a value, to measure
// it, to refuse it.
func ExampleConfig_middleware() {
	server, cfg := withOneRun()
	cfg.Hooks.Middleware = []phxworker.Middleware{func(next phxworker.ExecuteFunc) phxworker.ExecuteFunc {
		return func(ctx context.Context, run *phxworker.Run) (phxworker.Result, error) {
			fmt.Println("before", run.ID)
			result, err := next(ctx, run)
			fmt.Println("after", run.ID, string(result.State), err)
			return result, err
		}
	}}
	worker, err := phxworker.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		_, _ = server.Wait(context.Background(), "run-1")
		worker.Drain()
	}()
	fmt.Println(worker.Run(context.Background()))
	_ = server.Close()
	// Output:
	// before run-1
	// after run-1 "done" <nil>
	// <nil>
}

// A gate holds claims back while the machine lacks what runs need. Here it
// has room for a run from the third time on that it is asked.
func ExampleConfig_gate() {
	server, cfg := withOneRun()
	asked := 0
	cfg.Claim.MinBackoff = time.Millisecond
	cfg.Hooks.Gate = func(_ context.Context, group string) error {
		if asked++; asked < 3 {
			fmt.Println("not now,", group)
			return errors.New("the disk is full")
		}
		return nil
	}
	worker, err := phxworker.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		_, _ = server.Wait(context.Background(), "run-1")
		worker.Drain()
	}()
	fmt.Println(worker.Run(context.Background()))
	fmt.Println(worker.Stats().Groups[0].HeldBack, "claims were held back")
	_ = server.Close()
	// Output:
	// not now, manual>*
	// not now, manual>*
	// <nil>
	// 2 claims were held back
}

// folders is an engine whose runs have a folder each.
type folders struct{}

// inFolder is a run with its folder.
type inFolder struct {
	run *phxworker.Run
	dir string
}

func (folders) Prepare(_ context.Context, run *phxworker.Run) (phxworker.Execution, error) {
	dir, err := os.MkdirTemp("", "run")
	return &inFolder{run, dir}, err
}

func (f *inFolder) Versions() phxworker.Versions { return phxworker.Versions{"engine": "folders 1.0"} }

func (f *inFolder) Execute(context.Context) (phxworker.Result, error) {
	entries, err := os.ReadDir(f.dir)
	state := json.RawMessage(fmt.Sprintf(`{"files":%d}`, len(entries)))
	step := f.run.StartStep("a", nil)
	step.Log(phxworker.TextLine("info", "JOB", "the folder was read"))
	step.Complete(phxworker.StepResult{Reason: phxworker.Success, State: state, Leaf: true})
	return phxworker.Result{State: state}, err
}

func (f *inFolder) Close() { _ = os.RemoveAll(f.dir) }

// An engine that has something to prepare returns an execution of its own. It is closed in
// the end, executed or not.
func ExampleExecution() {
	server, cfg := withOneRun()
	cfg.Engine = folders{}
	worker, err := phxworker.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- worker.Run(context.Background()) }()

	result, err := server.Wait(context.Background(), "run-1")
	fmt.Println(result.Reason, string(result.FinalState), err)
	worker.Drain()
	fmt.Println(<-stopped)
	_ = server.Close()
	// Output:
	// success {"files":0} <nil>
	// <nil>
}

// A handler whose service fails at times tries again, for as long as there is sense in it
// and time. Then it returns the run to the queue, for longer with each attempt; a server that takes
// none back is told that it failed.
func ExampleRetry() {
	server, cfg := withOneRun()
	calls := 0
	order := func(context.Context) error { // stands for a call over the network
		if calls++; calls < 3 {
			return errors.New("503 Service Unavailable")
		}
		return nil
	}
	cfg.Engine = phxworker.Func(func(ctx context.Context, run *phxworker.Run) (any, error) {
		policy := backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Millisecond), 5)
		if err := phxworker.Retry(ctx, policy, order); err != nil {
			return nil, phxworker.Requeue(time.Minute<<run.Attempt, err.Error())
		}
		return calls, nil
	})
	worker, err := phxworker.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- worker.Run(context.Background()) }()

	result, err := server.Wait(context.Background(), "run-1")
	fmt.Println(result.Reason, string(result.FinalState), err)
	worker.Drain()
	fmt.Println(<-stopped)
	_ = server.Close()
	// Output:
	// success {"value":3} <nil>
	// <nil>
}

// AfterRun is for what must be done when a run is over and before another takes
// its slot.
func ExampleConfig_afterRun() {
	server, cfg := withOneRun()
	over := make(chan phxworker.RunResult)
	cfg.Hooks.AfterRun = func(result phxworker.RunResult) { over <- result }
	worker, err := phxworker.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- worker.Run(context.Background()) }()

	result := <-over
	fmt.Println(result.RunID, result.Group, result.Reason)
	worker.Drain()
	fmt.Println(<-stopped)
	_ = server.Close()
	// Output:
	// run-1 manual>* success
	// <nil>
}
