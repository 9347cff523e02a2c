package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/runner"
)

// extensions is about what goes beyond Lightning's protocol.
var extensions = []family{
	{
		name: "phxworker_runs_settled_total", help: "Claimed runs that are over for this worker, by what became of them in the server's queue.",
		kind: prometheus.CounterValue, labels: []string{"settlement"},
		read: func(now *snapshot, out *series) {
			for _, settlement := range runner.Settlements() {
				out.number(float64(now.Delivery.Settled[settlement]), string(settlement))
			}
		},
	},
	counter("phxworker_leases_renewed_total", "Leases of runs that the server has renewed.", func(now *snapshot) float64 {
		return float64(now.Delivery.Renewed)
	}),
	counter("phxworker_unknown_pushes_total", "Pushes of the server that mean nothing to the worker, or were not agreed on.", func(now *snapshot) float64 {
		return float64(now.Delivery.Unknown + now.Queue.Unknown)
	}),
	{
		name: "phxworker_extension_off", help: "1 when the extension was switched off because a topic crashed over it, else 0.",
		kind: prometheus.GaugeValue, labels: []string{"extension"},
		read: func(now *snapshot, out *series) {
			for _, name := range phxworker.KnownExtensions() {
				out.number(bit(slices.Contains(now.ExtensionsOff, name)), name)
			}
		},
	},
	groupCounter("phxworker_claims_exhausted_total", "Claims that brought nothing but runs which come back again and again.", func(g *phxworker.GroupStats) uint64 { return g.Claims.Exhausted }),
	groupCounter("phxworker_runs_prefetched_total", "Runs that were claimed ahead of a slot.", func(g *phxworker.GroupStats) uint64 { return g.Claims.Prefetched }),
	groupCounter("phxworker_runs_prefetch_returned_total", "Runs that were claimed ahead, waited too long and were returned.", func(g *phxworker.GroupStats) uint64 { return g.Claims.Returned }),
}
