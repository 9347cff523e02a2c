package metrics

import (
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/egress"
)

// families are all metrics of a worker. docs/metrics.md explains each.
var families = slices.Concat(overall, connection, groups, runs, events, engines, network, extensions)

// overall is about the worker as such.
var overall = []family{
	{
		name: "phxworker_build_info", help: "What the worker was built from; always 1.",
		labels: []string{"version", "commit", "goversion"}, kind: prometheus.GaugeValue,
		read: func(now *snapshot, out *series) {
			out.number(1, now.version, now.commit, runtime.Version())
		},
	},
	{
		name: "phxworker_unable", help: "1 when the worker claims nothing, or one run at a time to try, because it cannot execute (engine) or verify (key) runs, or the server does not take them from it (server), else 0.",
		labels: []string{"breaker"}, kind: prometheus.GaugeValue,
		read: func(now *snapshot, out *series) {
			for _, name := range []string{phxworker.BreakerEngine, phxworker.BreakerKey, phxworker.BreakerServer} {
				out.number(bit(slices.ContainsFunc(now.Unable, func(u phxworker.UnableStats) bool { return u.Name == name && !u.Pending })), name)
			}
		},
	},
	gauge("phxworker_draining", "1 when the worker claims no more and ends when its runs do, else 0.", func(now *snapshot) float64 {
		return bit(now.Phase == phxworker.PhaseDraining || now.Phase == phxworker.PhaseStopping || now.Phase == phxworker.PhaseStopped)
	}),
}

// connection is about the way to the server, and how it fares.
var connection = []family{
	gauge("phxworker_connected", "1 when the worker has a connection to the server, else 0.", func(now *snapshot) float64 {
		return bit(now.Connection.State == channel.Connected.String())
	}),
	gauge("phxworker_queue_joined", "1 when the worker is on the topic worker:queue, without which it gets no run, else 0.", func(now *snapshot) float64 {
		return bit(now.Queue.Joined)
	}),
	gauge("phxworker_sockets", "Sockets to the server, the further ones for many runs included.", func(now *snapshot) float64 {
		return float64(now.Connection.Sockets)
	}),
	gauge("phxworker_heartbeat_round_trip_seconds", "How long the server took to answer the latest heartbeat; 0 before the first.", func(now *snapshot) float64 {
		return float64(now.Connection.RoundTrip)
	}),
	counter("phxworker_connections_total", "Connections made, the first one and each reconnect.", func(now *snapshot) float64 {
		return float64(now.Connection.Connections)
	}),
	byKey("phxworker_connections_lost_total", "Connections lost, by cause; dial: those that could not be made.", "cause",
		[]channel.Cause{channel.CauseHeartbeat, channel.CauseClosed, channel.CauseNetwork, channel.CauseProtocol, channel.CauseDial},
		func(now *snapshot) map[channel.Cause]uint64 { return now.Connection.Lost }),
}

// groups is about slot groups, and how they claim.
var groups = []family{
	byGroup(prometheus.GaugeValue, "phxworker_slots", "Runs that the group may hold at once.", nil, func(g *phxworker.GroupStats, out *series) {
		out.number(float64(g.Size), g.Name)
	}),
	byGroup(prometheus.GaugeValue, "phxworker_slots_used", "Slots that are not open; claimed: a claim is under way for them, running: they hold a run.", []string{"state"},
		func(g *phxworker.GroupStats, out *series) {
			out.number(float64(g.Claimed), g.Name, "claimed")
			out.number(float64(g.Running), g.Name, "running")
		}),
	byGroup(prometheus.GaugeValue, "phxworker_group_paused", "1 when the group claims nothing until it is resumed, else 0.", nil, func(g *phxworker.GroupStats, out *series) {
		out.number(bit(g.Paused), g.Name)
	}),
	byGroup(prometheus.CounterValue, "phxworker_claims_total", "Claims that are over; run: brought one or more, empty: there was none, error: failed.", []string{"outcome"},
		func(g *phxworker.GroupStats, out *series) {
			out.number(float64(g.Claims.Brought), g.Name, "run")
			out.number(float64(g.Claims.Empty), g.Name, "empty")
			out.number(float64(g.Claims.Failed), g.Name, "error")
		}),
	{
		name: "phxworker_claim_seconds", help: "From a claim to the server's answer.", labels: []string{"group"},
		read: func(now *snapshot, out *series) {
			for i := range now.Groups {
				out.durations(now.Groups[i].Answered, now.Groups[i].Name)
			}
		},
	},
	groupCounter("phxworker_claims_held_back_total", "Claims not made because a gate said no.", func(g *phxworker.GroupStats) uint64 { return g.HeldBack }),
	groupCounter("phxworker_wakes_total", "Wake-ups by the server, whether there was an open slot or not.", func(g *phxworker.GroupStats) uint64 { return g.Wakes }),
	groupCounter("phxworker_wakes_coalesced_total", "Wake-ups that came while another was not answered yet, and became one with it.", func(g *phxworker.GroupStats) uint64 { return g.Coalesced }),
	groupCounter("phxworker_runs_refused_total", "Runs not executed because of their token.", func(g *phxworker.GroupStats) uint64 { return g.Refused }),
}

// runs is about runs, from the claim to the end.
var runs = []family{
	byKey("phxworker_runs_total", "Runs that are over, by how they ended.", "reason",
		[]phxworker.Reason{runner.Success, runner.Fail, runner.Crash, runner.Cancel, runner.Kill, runner.Exception},
		func(now *snapshot) map[phxworker.Reason]int { return now.Ended }),
	counter("phxworker_runs_undelivered_total", "Runs that are over without the server having been told.", func(now *snapshot) float64 {
		return float64(now.Undelivered)
	}),
	gauge("phxworker_oldest_run_seconds", "Time since the claim of the oldest run under way; 0 when there is none.", func(now *snapshot) float64 {
		return oldest(now).Seconds()
	}),
	durations("phxworker_claim_to_start_seconds", "From a claim's answer to the begin of the run.", func(now *snapshot) phxworker.Histogram {
		return now.Times.ClaimToStart
	}),
	durations("phxworker_wake_to_start_seconds", "From a wake-up to the begin of the run that answered it.", func(now *snapshot) phxworker.Histogram {
		return now.Times.WakeToStart
	}),
	durations("phxworker_run_seconds", "From a run's claim to its end.", func(now *snapshot) phxworker.Histogram {
		return now.Times.Run
	}),
}

func oldest(now *snapshot) time.Duration {
	var age time.Duration
	for i := range now.Runs {
		age = max(age, now.at.Sub(now.Runs[i].Claimed))
	}
	return age
}

var eventNames = []string{"run:start", "step:start", "run:log", "step:complete", "run:complete"}

// events is about what runs tell the server.
var events = []family{
	gauge("phxworker_events_unacknowledged", "Events of runs that the server has not answered yet.", func(now *snapshot) float64 {
		n := 0
		for i := range now.Runs {
			n += now.Runs[i].Unacknowledged
		}
		return float64(n)
	}),
	durations("phxworker_event_acknowledgement_seconds", "From the push of an event to the server's answer.", func(now *snapshot) phxworker.Histogram {
		return now.Delivery.Acknowledged
	}),
	counter("phxworker_events_resent_total", "Events sent once more, after a lost join.", func(now *snapshot) float64 {
		return float64(now.Delivery.Resent)
	}),
	counter("phxworker_log_lines_shortened_total", "Lines of runs' logs for which a note was sent, as they were too large or refused.", func(now *snapshot) float64 {
		return float64(now.Delivery.LogsShortened)
	}),
	byKey("phxworker_events_undelivered_total", "Events of runs that the server does not have, or may not have, and will not get from the worker.", "event", eventNames, func(now *snapshot) map[string]uint64 {
		return now.Delivery.Undelivered
	}),
}

// engines is about what executes the runs.
var engines = []family{
	gauge("phxworker_engine_processes", "Processes of the engine, busy ones and spares, until they have exited.", func(now *snapshot) float64 {
		return float64(now.processes)
	}),
	gauge("phxworker_engines_stuck", "Calls of the engine that go on although their run is over.", func(now *snapshot) float64 {
		return float64(now.Delivery.StuckNow)
	}),
	counter("phxworker_engines_stuck_total", "Calls of the engine that did not end with their run.", func(now *snapshot) float64 {
		return float64(now.Delivery.Stuck)
	}),
	counter("phxworker_engine_panics_total", "Panics of the engine, each of which ended its run.", func(now *snapshot) float64 {
		return float64(now.Delivery.Panics)
	}),
}

// network is about what jobs of the embedded engine exchange.
var network = []family{
	{
		name: "phxworker_egress_connections_total", help: "Connections that jobs of the embedded engine asked for, by what kind of address they lead to and what became of them.",
		kind: prometheus.CounterValue, labels: []string{"class", "outcome"},
		read: func(now *snapshot, out *series) {
			for _, class := range egress.Classes() {
				for _, outcome := range egress.Outcomes() {
					out.number(float64(now.egress.Connections[egress.Connection{Class: class, Outcome: outcome}]), string(class), string(outcome))
				}
			}
		},
	},
	byKey("phxworker_egress_requests_total", "Requests of jobs of the embedded engine, by how they ended.", "outcome", egress.Endings(), func(now *snapshot) map[egress.Ending]uint64 { return now.egress.Requests }),
	{
		name: "phxworker_egress_bytes_total", help: "Bytes of the bodies that jobs of the embedded engine sent and received, before compression.",
		kind: prometheus.CounterValue, labels: []string{"direction"},
		read: func(now *snapshot, out *series) {
			out.number(float64(now.egress.Sent), "sent")
			out.number(float64(now.egress.Received), "received")
		},
	},
}

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
	groupCounter("phxworker_runs_prefetched_total", "Runs that were claimed ahead of a slot.", func(g *phxworker.GroupStats) uint64 { return g.Prefetched }),
	groupCounter("phxworker_runs_prefetch_returned_total", "Runs that were claimed ahead, waited too long and were returned.", func(g *phxworker.GroupStats) uint64 { return g.PrefetchReturned }),
}
