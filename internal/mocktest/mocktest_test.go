package mocktest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

// The matrix of CI rests on this: the environment counts in our tests, and nowhere else.
func TestTheModeOfTheEnvironment(t *testing.T) {
	for value, want := range map[string]mockserver.Mode{"": mockserver.Lightning, "lightning": mockserver.Lightning, "extended": mockserver.Extended} {
		t.Setenv(mocktest.Variable, value)
		require.Equal(t, want, mocktest.Config(mockserver.Config{}).Mode)
		require.Equal(t, mockserver.Lightning, mocktest.Config(mockserver.Config{Mode: mockserver.Lightning}).Mode)
		server := mockserver.NewTest(t, mockserver.Config{})
		require.Equal(t, mockserver.Lightning, server.Mode())
	}
	t.Setenv(mocktest.Variable, "psychic")
	require.PanicsWithValue(t, `PHXWORKER_MOCK_MODE: there is no mode "psychic": it is lightning or extended`, func() { mocktest.Config(mockserver.Config{}) })
}
