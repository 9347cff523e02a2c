package runtest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// writePages is the environment variable that has [Page] write.
const writePages = "PHXWORKER_PAGES"

// Page compares what a test prints with the part of docs/compatibility.md that is between its name and an end mark, so that the page
// cannot say more than tests know. With PHXWORKER_PAGES=write it writes that part.
func Page(t *testing.T, path, part, text string) {
	t.Helper()
	page, err := os.ReadFile(path) //nolint:gosec // a page of ours
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(page), "<!-- printed by "+part+" -->\n")
	require.True(t, found, "%s has no part that is printed by %s", path, part)
	have, after, found := strings.Cut(rest, "<!-- end -->")
	require.True(t, found, "the part that is printed by %s has no end", part)
	if os.Getenv(writePages) == "write" {
		made := before + "<!-- printed by " + part + " -->\n" + text + "<!-- end -->" + after
		require.NoError(t, os.WriteFile(path, []byte(made), 0o644)) //nolint:gosec // a page
		return
	}
	require.Equal(t, text, have, "%s=write go test -run %s writes the page anew", writePages, part)
}
