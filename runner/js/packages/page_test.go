package packages

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
)

// The page has the adaptors that TestVerifiedAdaptors compares with Node, and how many uses of each.
func TestThePageOfVerifiedAdaptors(t *testing.T) {
	var rows strings.Builder
	for _, adaptor := range slices.Sorted(slices.Values(verified.Adaptors)) {
		require.NotEmpty(t, compared[adaptor])
		fmt.Fprintf(&rows, "| `%s` | %d |\n", adaptor, len(compared[adaptor]))
	}
	runtest.Page(t, "../../../docs/compatibility.md", t.Name(), "| verified | uses that are compared |\n|---|---|\n"+rows.String())
}
