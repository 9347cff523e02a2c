package metrics

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/slots"
)

// contract is what dashboards, alerts and people hold on to: name, type and
// labels. It does not change without a word in the changelog.
const contract = `
phxworker_build_info gauge commit goversion version
phxworker_claim_seconds histogram group
phxworker_claim_to_start_seconds histogram
phxworker_claims_exhausted_total counter group
phxworker_claims_held_back_total counter group
phxworker_claims_total counter group outcome
phxworker_connected gauge
phxworker_connections_lost_total counter cause
phxworker_connections_total counter
phxworker_draining gauge
phxworker_egress_bytes_total counter direction
phxworker_egress_connections_total counter class outcome
phxworker_egress_requests_total counter outcome
phxworker_engine_panics_total counter
phxworker_engine_processes gauge
phxworker_engines_stuck gauge
phxworker_engines_stuck_total counter
phxworker_event_acknowledgement_seconds histogram
phxworker_events_resent_total counter
phxworker_events_unacknowledged gauge
phxworker_events_undelivered_total counter event
phxworker_extension_off gauge extension
phxworker_group_paused gauge group
phxworker_heartbeat_round_trip_seconds gauge
phxworker_leases_renewed_total counter
phxworker_log_lines_shortened_total counter
phxworker_oldest_run_seconds gauge
phxworker_queue_joined gauge
phxworker_run_seconds histogram
phxworker_runs_prefetch_returned_total counter group
phxworker_runs_prefetched_total counter group
phxworker_runs_refused_total counter group
phxworker_runs_settled_total counter settlement
phxworker_runs_total counter reason
phxworker_runs_undelivered_total counter
phxworker_slots gauge group
phxworker_slots_used gauge group state
phxworker_sockets gauge
phxworker_unable gauge breaker
phxworker_unknown_pushes_total counter
phxworker_wake_to_start_seconds histogram
phxworker_wakes_coalesced_total counter group
phxworker_wakes_total counter group
`

// A worker that has not begun exports all of it, so that rate() sees the first of
// everything.
func TestEveryMetricIsThereFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, quiet, phxworker.Config{Groups: slots.MustParse("fast_lane:1 manual>*:4")})
		got := h.scrape()
		var lines []string
		for name, family := range got.families {
			require.NotEmpty(t, family.GetHelp(), name)
			if strings.HasPrefix(name, "phxworker_") {
				lines = append(lines, describe(family))
			}
		}
		slices.Sort(lines)
		require.Equal(t, strings.TrimSpace(contract), strings.Join(lines, "\n"))
		require.Contains(t, got.families, "go_goroutines")
		require.Contains(t, got.families, "process_start_time_seconds")

		for _, sample := range []string{
			`phxworker_runs_total{reason="success"}`, `phxworker_runs_total{reason="fail"}`, `phxworker_runs_total{reason="crash"}`,
			`phxworker_runs_total{reason="cancel"}`, `phxworker_runs_total{reason="kill"}`, `phxworker_runs_total{reason="exception"}`,
			`phxworker_connections_lost_total{cause="heartbeat"}`, `phxworker_connections_lost_total{cause="closed"}`,
			`phxworker_connections_lost_total{cause="network"}`, `phxworker_connections_lost_total{cause="protocol"}`, `phxworker_connections_lost_total{cause="dial"}`,
			`phxworker_claims_total{group="fast_lane",outcome="run"}`, `phxworker_claims_total{group="fast_lane",outcome="empty"}`, `phxworker_claims_total{group="manual>*",outcome="error"}`,
			`phxworker_slots_used{group="fast_lane",state="claimed"}`, `phxworker_slots_used{group="manual>*",state="running"}`,
			`phxworker_egress_connections_total{class="loopback",outcome="refused"}`, `phxworker_egress_requests_total{outcome="limited"}`, `phxworker_egress_bytes_total{direction="sent"}`,
			`phxworker_wakes_total{group="fast_lane"}`, `phxworker_runs_refused_total{group="manual>*"}`,
			`phxworker_claim_seconds_bucket{group="fast_lane",le="0.0001"}`, `phxworker_run_seconds_bucket{le="3600"}`, `phxworker_wake_to_start_seconds_bucket{le="+Inf"}`,
		} {
			require.Contains(t, got.samples, sample)
			require.Zero(t, got.samples[sample], sample)
		}
		h.expect(map[string]float64{
			fmt.Sprintf(`phxworker_build_info{commit="abcdef0",goversion=%q,version="v1.2.3"}`, runtime.Version()): 1,
			`phxworker_slots{group="fast_lane"}`: 1, `phxworker_slots{group="manual>*"}`: 4,
		})
	})
}

// describe returns a metric as contract has it.
func describe(family *dto.MetricFamily) string {
	words := []string{family.GetName(), strings.ToLower(family.GetType().String())}
	for _, label := range family.GetMetric()[0].GetLabel() {
		words = append(words, label.GetName())
	}
	slices.Sort(words[2:])
	return strings.Join(words, " ")
}

func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(fixed{Groups: make([]phxworker.GroupStats, 1)}, Config{}))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

const page = "../../../docs/metrics.md"

// The table has every metric, as it is.
func TestTheTableOfMetrics(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	var lines []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(phxworker_\\w+)` \\| (\\w+) \\| (.*?) \\|").FindAllStringSubmatch(string(text), -1) {
		words := []string{row[1], row[2]}
		for _, label := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[3], -1) {
			words = append(words, label[1])
		}
		slices.Sort(words[2:])
		lines = append(lines, strings.Join(words, " "))
	}
	slices.Sort(lines)
	require.Equal(t, strings.TrimSpace(contract), strings.Join(lines, "\n"))
}

// What a query asks for is there: the metric, and the labels of one metric.
func TestTheQueriesOfThePage(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	labels := make(map[string][]string)
	for line := range strings.Lines(strings.TrimSpace(contract)) {
		words := strings.Fields(line)
		labels[words[0]] = append(words[2:], "job", "instance", "le")
		if words[1] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				labels[words[0]+suffix] = labels[words[0]]
			}
		}
	}
	names := regexp.MustCompile(`(phxworker_\w+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(names), 60)
	for _, name := range names {
		require.Contains(t, labels, name[1])
		for _, label := range regexp.MustCompile(`(\w+)(?:=|!=|=~|!~)"`).FindAllStringSubmatch(name[2], -1) {
			require.Contains(t, labels[name[1]], label[1], name[0])
		}
	}
}
