package adaptors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/flight"
)

// Guards against a plan with many adaptors that installs all of them at once.
func TestNothingIsInstalledOutOfTurn(t *testing.T) {
	w := fakes(t)
	r := open(t, Config{})
	for range atATime {
		r.turns <- struct{}{}
	}
	_, err := r.Resolve(t.Context(), one, func(string) { go r.Close() }) // once it has begun
	require.ErrorIs(t, err, flight.ErrClosed)
	require.Empty(t, w.Paths())
}
