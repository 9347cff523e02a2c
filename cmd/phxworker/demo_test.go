package main

import (
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

	parts := strings.SplitN(stdout, "\n\n", 3) // the page's address, what happens, what became of it
	require.Len(t, parts, 3)
	closing := parts[2]
	rows := strings.Split(closing, "\n")
	// The wildcard takes runs of the fast lane as well, when its slot is busy.
	groupsOf := map[string][]string{
		"fast_lane": {"fast_lane", "manual>*"}, "manual": {"manual>*"}, "default": {"manual>*"},
	}
	for i, plan := range plans {
		cells := strings.Fields(rows[1+i])
		require.Equal(t, []string{plan.Name, plan.Queue}, cells[:2])
		require.Contains(t, groupsOf[plan.Queue], cells[2])
		require.Equal(t, plan.Expect.Reason, cells[3])
		require.LessOrEqual(t, len([]rune(rows[1+i])), 80)
	}
	require.Regexp(t, `All ended as their examples say they should\.\n$`, stdout)
}
