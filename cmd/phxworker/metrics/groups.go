package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/phxworker/phxworker"
)

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
			for i := range now.groups {
				out.durations(now.groups[i].ClaimSeconds, now.groups[i].Name)
			}
		},
	},
	groupCounter("phxworker_claims_held_back_total", "Claims not made because a gate said no.", func(g *phxworker.GroupStats) uint64 { return g.Claims.HeldBack }),
	groupCounter("phxworker_wakes_total", "Wake-ups by the server, whether there was an open slot or not.", func(g *phxworker.GroupStats) uint64 { return g.Claims.Wakes }),
	groupCounter("phxworker_wakes_coalesced_total", "Wake-ups that came while another was not answered yet, and became one with it.", func(g *phxworker.GroupStats) uint64 { return g.Claims.Coalesced }),
	groupCounter("phxworker_runs_refused_total", "Runs not executed because of their token.", func(g *phxworker.GroupStats) uint64 { return g.Claims.Refused }),
}
