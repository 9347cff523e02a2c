package claim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOutcomeString(t *testing.T) {
	require.Equal(t, "full", full.String())
	require.Equal(t, "brought", brought.String())
	require.Equal(t, "nothing", nothing.String())
	require.Equal(t, "outcome(9)", outcome(9).String())
}
