package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	adapter "sigs.k8s.io/prometheus-adapter/pkg/config"
	"sigs.k8s.io/yaml"

	"github.com/phxworker/phxworker/mockserver"
)

// scraped is what exported has found.
var scraped map[string][]string

// exported returns the names of the labels of every metric that a worker exports
// once it has executed a run, and fails the test if there is no such worker.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	if scraped != nil {
		return scraped
	}
	seriesFmt, labelFmt := regexp.MustCompile(`^(\w+)(?:\{(.*)\})? `), regexp.MustCompile(`(\w+)="`)
	server := startServer(t)
	w := start(t, server, exec.CommandContext(t.Context(), binary), map[string]string{
		"WORKER_LIGHTNING_SERVICE_URL": server.URL(), "WORKER_SECRET": server.Secret(),
		"WORKER_PORT": "0", "WORKER_ENGINE": "js", "PATH": os.Getenv("PATH"),
	})
	w.answers("/readyz")
	plan := json.RawMessage(`{"id":"run-1","jobs":[{"id":"a","adaptor":"@openfn/language-common@3.3.4","body":"fn(state => state)"}],"triggers":[],"edges":[]}`)
	_, err := server.Enqueue(mockserver.Run{Plan: plan, Queue: "manual"})
	require.NoError(t, err)
	_, err = server.Wait(t.Context(), "run-1")
	require.NoError(t, err)
	found := make(map[string][]string)
	require.Eventually(t, func() bool { // the run is counted just after the server has heard of it
		_, text := w.get("/metrics")
		clear(found)
		for line := range strings.Lines(text) {
			if m := seriesFmt.FindStringSubmatch(line); m != nil {
				for _, label := range labelFmt.FindAllStringSubmatch(m[2], -1) {
					found[m[1]] = append(found[m[1]], label[1])
				}
				found[m[1]] = slices.Compact(slices.Sorted(slices.Values(found[m[1]])))
			}
		}
		return len(found["phxworker_runs_total"]) > 0
	}, patient, patient/1000, "no run was counted")
	require.Zero(t, w.stop(), w.stderr)
	scraped = found
	return found
}

// target are labels that Prometheus gives to what it scrapes.
var target = []string{"job", "instance", "namespace", "pod"}

// requireExported fails if a query is none, or asks for what no worker exports.
func requireExported(t *testing.T, query, where string) parser.Expr {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	require.NoError(t, err, "%s: %s", where, query)
	all := exported(t)
	var has []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			require.Contains(t, slices.Sorted(maps.Keys(all)), selector.Name, "%s: no worker exports it", where)
			has = append(has, all[selector.Name]...)
			for _, m := range selector.LabelMatchers {
				if m.Name != "__name__" {
					require.Contains(t, append(all[selector.Name], target...), m.Name, "%s: %s has no such label", where, selector.Name)
				}
			}
		}
		return nil
	})
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if aggregate, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range aggregate.Grouping {
				require.Contains(t, append(has, target...), label, "%s: nothing has this label: %s", where, query)
			}
		}
		return nil
	})
	return expr
}

func TestTheAdapterKnowsWhatTheScalerAsksFor(t *testing.T) {
	var rules adapter.MetricsDiscoveryConfig
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, "prometheus/adapter.yaml")), &rules))
	require.Len(t, rules.Rules, 1)
	rule := rules.Rules[0]
	requireExported(t, rule.SeriesQuery, "adapter.yaml")
	filled := strings.NewReplacer("<<.GroupBy>>", "pod", "<<.LabelMatchers>>", `namespace="n",pod=~"a|b"`).Replace(rule.MetricsQuery)
	requireExported(t, filled, "adapter.yaml")

	scaler := read(t, "kubernetes/optional/hpa.yaml")
	require.Contains(t, scaler, fmt.Sprintf("name: %s\n", rule.Name.As))
}
