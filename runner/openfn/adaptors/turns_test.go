package adaptors

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Guards against a plan with many adaptors that starts npm for all of them at once.
func TestNothingIsInstalledOutOfTurn(t *testing.T) {
	log := fakes(t)
	r := open(t, Config{})
	for range atATime {
		r.turns <- struct{}{}
	}
	_, err := r.Resolve(t.Context(), one, func(string) { go r.Close() }) // once it has begun
	require.ErrorIs(t, err, errClosed)
	require.Empty(t, logged(t, log))
}

// Guards against an install that waits for itself: the bundler is installed in the
// middle of that of an adaptor.
func TestOneTurnIsEnoughForAnInstall(t *testing.T) {
	log := fakes(t)
	r := open(t, Config{})
	for range atATime - 1 {
		r.turns <- struct{}{}
	}
	_, err := r.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	require.Len(t, r.turns, atATime-1, "who is done makes room")
	require.Len(t, logged(t, log), 2)
}
