package command

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Guards against files that nobody counts because no path leads to them: what is made
// from within a folder may lie deeper than a path can be long.
func TestFilesBeyondEveryPathAreTooMuch(t *testing.T) {
	dir, name := t.TempDir(), strings.Repeat("d", 200)
	at, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer func() { _ = at.Close() }()
	for deep := 0; deep < 4000; deep += len(name) {
		require.NoError(t, at.Mkdir(name, 0o700))
		below, err := at.OpenRoot(name)
		require.NoError(t, err)
		_ = at.Close()
		at = below
	}
	counted := func() int64 {
		s := space{seen: make(map[uint64]bool)}
		require.NoError(t, s.walk(dir))
		return s.bytes
	}
	require.Less(t, counted(), int64(1<<20))
	require.NoError(t, at.WriteFile(name, nil, 0o600)) // no path leads to it
	require.Equal(t, int64(uncountable), counted())
	require.NoError(t, at.Remove(name))
	require.NoError(t, at.Mkdir(name, 0o700))
	require.Equal(t, int64(uncountable), counted())
}
