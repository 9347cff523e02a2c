package claim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatCanBePrinted(t *testing.T) {
	for i, name := range []string{"undone", "unsent", "brought", "exhausted", "nothing", "outcome(5)"} {
		require.Equal(t, name, outcome(i).String())
	}
	for i, name := range []string{"idle", "paused", "full", "unready", "claiming", "resting", "waiting", "State(7)"} {
		require.Equal(t, name, State(i).String())
	}
}
