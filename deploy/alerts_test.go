package deploy

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// alerts returns the rules by their names.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, problems := rulefmt.ParseFile(filepath.Join("prometheus", "alerts.yaml"), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	require.Empty(t, problems)
	rules := make(map[string]rulefmt.Rule)
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			rules[rule.Alert] = rule
		}
	}
	return rules
}

func TestAlertsAskForWhatIsExported(t *testing.T) {
	for name, rule := range alerts(t) {
		requireExported(t, rule.Expr, name)
		require.Contains(t, []string{"critical", "warning", "info"}, rule.Labels["severity"], name)
		require.NotEmpty(t, rule.Annotations["summary"], name)
		require.NotEmpty(t, rule.Annotations["description"], name)
	}
}

// Each alert fires for what it is there for, and is silent when all is well. The
// series have one value a minute, as in promtool's tests of rules.
func TestAlerts(t *testing.T) {
	const up = `{job="w",instance="a"}`
	const event = `{job="w",instance="a",event="step:complete"}`
	const group = `{job="w",instance="a",group="manual>*"`
	tests := []struct {
		alert     string
		well, not []string
	}{
		{
			"PhxworkerNoneReady",
			[]string{"phxworker_build_info" + up + " 1x30", "phxworker_queue_joined" + up + " 1x30", "phxworker_draining" + up + " 0x30"},
			[]string{"phxworker_build_info" + up + " 1x30", "phxworker_queue_joined" + up + " 1x30", "phxworker_draining" + up + " 1x30"},
		},
		{
			"PhxworkerNoneReady",
			[]string{
				"phxworker_build_info" + up + " 1x30", "phxworker_queue_joined" + up + " 0x30", "phxworker_draining" + up + " 0x30",
				`phxworker_queue_joined{job="w",instance="b"} 1x30`, `phxworker_draining{job="w",instance="b"} 0x30`,
			},
			nil,
		}, // no worker at all
		{
			"PhxworkerNotJoined",
			[]string{"phxworker_queue_joined" + up + " 1x20 0x3 1x7", "phxworker_draining" + up + " 0x30"},
			[]string{"phxworker_queue_joined" + up + " 1x10 0x20", "phxworker_draining" + up + " 0x30"},
		},
		{
			"PhxworkerNotJoined",
			[]string{"phxworker_queue_joined" + up + " 1x10 0x20", "phxworker_draining" + up + " 1x30"},
			[]string{"phxworker_queue_joined" + up + " 0x30", "phxworker_draining" + up + " 0x30"},
		},
		{
			"PhxworkerSaturated",
			[]string{"phxworker_slots" + group + "} 5x30", "phxworker_slots_used" + group + `,state="running"} 4x30`, "phxworker_slots_used" + group + `,state="claimed"} 1x30`},
			[]string{"phxworker_slots" + group + "} 5x30", "phxworker_slots_used" + group + `,state="running"} 5x30`, "phxworker_slots_used" + group + `,state="claimed"} 0x30`},
		},
		{
			"PhxworkerClaimsFail",
			[]string{"phxworker_claims_total" + group + `,outcome="empty"} 0+10x30`, "phxworker_claims_total" + group + `,outcome="error"} 0x15 1x15`},
			[]string{"phxworker_claims_total" + group + `,outcome="empty"} 0+10x30`, "phxworker_claims_total" + group + `,outcome="error"} 0+5x30`},
		},
		{
			"PhxworkerUnable",
			[]string{`phxworker_unable{job="w",instance="a",breaker="engine"} 0x30`, `phxworker_unable{job="w",instance="a",breaker="key"} 0x30`},
			[]string{`phxworker_unable{job="w",instance="a",breaker="engine"} 1x30`, `phxworker_unable{job="w",instance="a",breaker="key"} 0x30`},
		},
		{
			"PhxworkerRunsRefused",
			[]string{"phxworker_runs_refused_total" + group + "} 3x30"},
			[]string{"phxworker_runs_refused_total" + group + "} 3x25 4x5"},
		},
		{
			"PhxworkerRunTooOld",
			[]string{"phxworker_oldest_run_seconds" + up + " 300x30"},
			[]string{"phxworker_oldest_run_seconds" + up + " 0+60x30"},
		},
		{
			"PhxworkerEventsPileUp",
			[]string{"phxworker_events_unacknowledged" + up + " 150x30"},
			[]string{"phxworker_events_unacknowledged" + up + " 0+20x30"},
		},
		{
			"PhxworkerRunLost",
			[]string{"phxworker_runs_undelivered_total" + up + " 0x30"},
			[]string{"phxworker_runs_undelivered_total" + up + " 0x25 1x5"},
		},
		{
			"PhxworkerEngineStuck",
			[]string{"phxworker_engines_stuck" + up + " 0x30"},
			[]string{"phxworker_engines_stuck" + up + " 0x20 1x10"},
		},
		{
			"PhxworkerEnginePanics",
			[]string{"phxworker_engine_panics_total" + up + " 2x30"},
			[]string{"phxworker_engine_panics_total" + up + " 2x25 3x5"},
		},
		{
			"PhxworkerConnectionFlaps",
			[]string{`phxworker_connections_lost_total{job="w",instance="a",cause="closed"} 0x20 1x10`, `phxworker_connections_lost_total{job="w",instance="a",cause="dial"} 0+10x30`},
			[]string{`phxworker_connections_lost_total{job="w",instance="a",cause="closed"} 0+1x30`},
		},
		{
			"PhxworkerDrainsTooLong",
			[]string{"phxworker_draining" + up + " 0x25 1x5"},
			[]string{"phxworker_draining" + up + " 1x30"},
		},
		{
			"PhxworkerEventsUndelivered",
			[]string{"phxworker_events_undelivered_total" + event + " 7x30"},
			[]string{"phxworker_events_undelivered_total" + event + " 7x25 9x5"},
		},
	}
	rules := alerts(t)
	tested := make(map[string]bool)
	for _, tt := range tests {
		t.Run(tt.alert, func(t *testing.T) {
			require.Contains(t, rules, tt.alert)
			require.False(t, fires(t, rules[tt.alert], tt.well), "when all is well")
			require.True(t, fires(t, rules[tt.alert], tt.not), "when it is not")
		})
		tested[tt.alert] = true
	}
	for name := range rules {
		require.True(t, tested[name], "%s is not tested", name)
	}
}

// fires reports whether an alert fires at the half hour, of which the series are.
func fires(t *testing.T, rule rulefmt.Rule, series []string) bool {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: patient, Parser: parser.NewParser(parser.Options{})})
	data := recorded(t, series)
	const minutes = 30
	for at := minutes - int(time.Duration(rule.For).Minutes()); at <= minutes; at++ {
		query, err := engine.NewInstantQuery(t.Context(), data, nil, rule.Expr, time.Unix(0, 0).Add(time.Duration(at)*time.Minute))
		require.NoError(t, err)
		result := query.Exec(t.Context())
		vector, err := result.Vector()
		require.NoError(t, err)
		firing := len(vector) > 0
		query.Close()
		if !firing {
			return false
		}
	}
	return true
}
