package fault

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every fault that the how-to page shows must be one.
func TestDocumentedFaults(t *testing.T) {
	page, err := os.ReadFile("../../docs/mockserver.md")
	require.NoError(t, err)
	shown := regexp.MustCompile("[`'](\\{\"[^`']*\\})[`']").FindAllSubmatch(page, -1)
	var checked int
	for _, match := range shown {
		if !regexp.MustCompile(`"(event|action)"`).Match(match[1]) {
			continue // a plan, or what a run is told
		}
		_, err := Parse(match[1])
		require.NoError(t, err, "%s", match[1])
		checked++
	}
	require.Greater(t, checked, 15, "the page has changed its form: mend this test")
}
