package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
)

// overall is about the worker as such.
var overall = []family{
	{
		name: "phxworker_build_info", help: "What the worker was built from; always 1.",
		labels: []string{"version", "commit", "goversion"}, kind: prometheus.GaugeValue,
		read: func(now *snapshot, out *series) {
			out.number(1, now.build.Version, now.build.Commit, now.build.Go)
		},
	},
	{
		name: "phxworker_unable", help: "1 when the worker claims nothing, or one run at a time to try, because it cannot execute (engine) or verify (key) runs, else 0.",
		labels: []string{"breaker"}, kind: prometheus.GaugeValue,
		read: func(now *snapshot, out *series) {
			for _, name := range []string{phxworker.BreakerEngine, phxworker.BreakerKey} {
				out.number(bit(slices.ContainsFunc(now.Breakers, func(b phxworker.BreakerStats) bool { return b.Name == name && b.Cause != nil && !b.Pending })), name)
			}
		},
	},
	gauge("phxworker_draining", "1 when the worker claims no more and ends when its runs do, else 0.", func(now *snapshot) float64 {
		return bit(now.Phase > phxworker.PhaseRunning)
	}),
}

// connection is about the way to the server, and how it fares.
var connection = []family{
	gauge("phxworker_connected", "1 when the worker has a connection to the server, else 0.", func(now *snapshot) float64 {
		return bit(now.Socket.State == channel.Connected)
	}),
	gauge("phxworker_queue_joined", "1 when the worker is on the topic worker:queue, without which it gets no run, else 0.", func(now *snapshot) float64 {
		return bit(now.Queue.Joined)
	}),
	gauge("phxworker_sockets", "Sockets to the server, the further ones for many runs included.", func(now *snapshot) float64 {
		return float64(now.Socket.Open)
	}),
	gauge("phxworker_heartbeat_round_trip_seconds", "How long the server took to answer the latest heartbeat; 0 before the first.", func(now *snapshot) float64 {
		return now.Socket.RoundTrip.Seconds()
	}),
	counter("phxworker_connections_total", "Connections made, the first one and each reconnect.", func(now *snapshot) float64 {
		return float64(now.Socket.Connections)
	}),
	byKey("phxworker_connections_lost_total", "Connections lost, by cause; dial: those that could not be made.", "cause",
		[]channel.Cause{channel.CauseHeartbeat, channel.CauseClosed, channel.CauseNetwork, channel.CauseProtocol, channel.CauseDial},
		func(now *snapshot) map[channel.Cause]uint64 { return now.Socket.Lost }),
}
