package chunk

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/phxworker/phxworker/internal/runtest"
)

// The page has the state of each of Node's builtins.
func TestThePageOfBuiltins(t *testing.T) {
	var here, lacking, packages []string
	for _, id := range Builtins() {
		if name := strings.TrimPrefix(id, nodePrefix); name[0] != '_' && id != stub {
			here = append(here, name)
		}
	}
	for name := range builtins {
		if Lacking(nodePrefix+name) != "" {
			lacking = append(lacking, name)
		}
	}
	slices.Sort(lacking)
	for _, one := range StandIns {
		packages = append(packages, one.Name+" "+one.Version)
	}
	names := func(list []string) string { return "`" + strings.Join(list, "`, `") + "`" }
	runtest.Page(t, "../../../docs/compatibility.md", t.Name(), fmt.Sprintf(`| builtins of Node's | |
|---|---|
| something stands in for them | %s |
| with these packages of npm | %s |
| missing, as all others: an adaptor that reaches one is for Node | %s |
`, names(here), strings.Join(packages, ", "), names(lacking)))
}
