package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/examples"
)

// Every example through the real engine: what "phxworker demo" promises.
func TestDemoEndsEveryExampleAsItShould(t *testing.T) {
	plans, err := examples.All()
	require.NoError(t, err)
	code, stdout, stderr := execute(t.Context(), nil, "demo")
	require.Empty(t, stderr)
	require.Equal(t, exitOK, code, stdout)

	_, closing, found := strings.Cut(stdout, "\n\n")
	require.True(t, found)
	rows := strings.Split(closing, "\n")
	for i, plan := range plans {
		group := map[string]string{"fast_lane": "fast_lane"}[plan.Queue]
		if group == "" {
			group = "manual>*"
		}
		want := []string{plan.Name, plan.Queue, group, plan.Expect.Reason}
		require.Equal(t, want, strings.Fields(rows[2+i])[:4])
		require.LessOrEqual(t, len([]rune(rows[2+i])), 80)
	}
	require.Regexp(t, regexp.MustCompile(`All ended as they should\.\n$`), stdout)
}
