package web_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/metrics"
	"github.com/phxworker/phxworker/cmd/phxworker/web"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/slots"
)

// A program that embeds a worker serves the status page, the probes and the controls under a
// path of its own, and the metrics beside them.
func Example() {
	lightning, err := mockserver.Start(mockserver.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lightning.Close()
	worker, err := phxworker.New(phxworker.Config{
		URL: lightning.URL(), Secret: lightning.Secret(), Groups: slots.MustParse("manual>*:3"),
		Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return "done", nil }),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	mux := http.NewServeMux()
	mux.Handle("/worker/", http.StripPrefix("/worker", web.New(worker, web.Config{Token: "a secret for controls"})))
	mux.Handle("/metrics", metrics.Handler(worker, metrics.Config{}))
	server := httptest.NewServer(mux)
	defer server.Close()

	events := worker.Subscribe(10)
	go func() { _ = worker.Run(context.Background()) }()
	if event := <-events.Events(); event.Kind != phxworker.EventConnected {
		fmt.Println(event.Kind, event.Err)
	}
	for get(server.URL+"/worker/readyz") != "ok\n" { // the queue is joined a moment later
		time.Sleep(time.Millisecond)
	}
	for line := range strings.Lines(get(server.URL + "/metrics")) {
		if strings.HasPrefix(line, "phxworker_slots{") || strings.HasPrefix(line, "phxworker_queue_joined ") {
			fmt.Print(line)
		}
	}
	err = worker.Stop(context.Background())
	fmt.Println(err, strings.TrimSpace(get(server.URL+"/worker/readyz")))
	// Output:
	// phxworker_queue_joined 1
	// phxworker_slots{group="manual>*"} 3
	// <nil> the worker has stopped
}

func get(url string) string {
	answer, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}
