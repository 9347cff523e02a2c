package fault

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse reads rules: a good one reads the same after it was written, a bad one
// is refused with a field and a reason, and neither may hurt a set.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"event":"run:complete","action":"drop","when":"after","skip":1,"count":2,"probability":0.5}`))
	f.Add([]byte(`{"topic":"run:*","over":10,"action":"refuse","response":{"errors":{"a":["b"]}}}`))
	f.Add([]byte(`{"event":"now","action":"restart","delay":"1m0.5s","code":1006}`))
	f.Add([]byte(`{"event":"connect","action":"refuse","code":503,"worker":"\u0000"}`))
	f.Add([]byte(`{"action":"close","code":1e3,"delay":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			invalid, ok := errors.AsType[*InvalidError](err)
			require.True(t, ok)
			require.NotEmpty(t, invalid.Field)
			require.NotEmpty(t, invalid.Reason)
			return
		}
		written, err := json.Marshal(r)
		require.NoError(t, err)
		again, err := Parse(written)
		require.NoError(t, err)
		rewritten, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(written), string(rewritten))

		s := NewSet(1)
		_, _, err = s.Add(r)
		require.NoError(t, err)
		for _, m := range []Message{{Event: Connect}, {Topic: "phoenix", Event: Heartbeat}, {Topic: "run:r1", Event: "run:log", Size: 100}} {
			s.Ask(&m)
		}
	})
}
