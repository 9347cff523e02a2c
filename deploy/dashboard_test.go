package deploy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dashboard is what is looked at of Grafana's format.
type dashboard struct {
	Panels []struct {
		ID          int
		Type, Title string
		Description string
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct {
			Expr       string
			Datasource struct{ UID string }
		}
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

func TestDashboard(t *testing.T) {
	var d dashboard
	require.NoError(t, json.Unmarshal([]byte(read(t, "grafana/phxworker.json")), &d))

	var names []string
	for _, variable := range d.Templating.List {
		names = append(names, variable.Name)
		if query, ok := strings.CutPrefix(variable.Definition, "label_values("); ok {
			metric, _, _ := strings.Cut(query, ",")
			requireExported(t, fill(metric), variable.Name)
		}
	}
	require.Equal(t, []string{"datasource", "job", "instance"}, names)

	ids := make(map[int]bool)
	taken := make(map[[2]int]string)
	shown := make(map[string]bool)
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "two panels have the id %d", p.ID)
		ids[p.ID] = true
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[cell], "%s lies on another panel", p.Title)
				taken[cell] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Description, p.Title)
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
			requireExported(t, fill(target.Expr), p.Title)
			require.Contains(t, target.Expr, `{job=~"$job",instance=~"$instance"`, p.Title)
			for name := range exported(t) {
				shown[name] = shown[name] || strings.Contains(target.Expr, name)
			}
		}
	}
	// A number that is exported and nowhere shown is one that nobody looks at.
	for name := range exported(t) {
		if base, ok := strings.CutPrefix(name, "phxworker_"); ok && !strings.HasSuffix(base, "_sum") && !strings.HasSuffix(base, "_count") {
			require.True(t, shown[name], "%s is on no panel", name)
		}
	}
}

// fill puts values in the place of Grafana's variables.
func fill(query string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$job", ".+", "$instance", ".+").Replace(query)
}
