package metrics_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/metrics"
)

// A program that has a registry adds the metrics of its worker. Those of two workers are told
// apart by a label.
func ExampleNewCollector() {
	registry := prometheus.NewRegistry()
	for _, name := range []string{"invoices", "reports"} {
		worker, err := phxworker.New(phxworker.Config{URL: "ws://localhost:4000/worker", Secret: "secret", Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) { return "done", nil })})
		if err != nil {
			fmt.Println(err)
			return
		}
		prometheus.WrapRegistererWith(prometheus.Labels{"worker": name}, registry).MustRegister(metrics.NewCollector(worker, metrics.Config{}))
	}
	fmt.Println(testutil.GatherAndCount(registry, "phxworker_connected"))
	// Output: 2 <nil>
}
