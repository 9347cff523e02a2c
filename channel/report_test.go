package channel

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Log lines about a server that is away: one, then one a minute, one at the
// return; and never a token.
func TestLogIsTerse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newServer(t)
		cfg := s.config()
		cfg.Params = params("token", "s3cret")
		cfg.MaxBackoff = 2 * time.Second
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		lines := func() []string {
			defer log.Reset()
			return strings.Split(strings.TrimSpace(log.String()), "\n")
		}
		socket, _, p, _ := joined(t, s, cfg)
		require.Len(t, lines(), 1) // connected
		time.Sleep(steady)

		s.refuse.Store(401)
		p.drop()
		time.Sleep(5*time.Minute + 30*time.Second)
		s.refuse.Store(0)
		p = s.accept()
		p.join("room:1")
		synctest.Wait()
		got := lines()
		require.GreaterOrEqual(t, len(got), 6)
		require.LessOrEqual(t, len(got), 7)
		require.Contains(t, got[0], "trying again")
		require.Contains(t, got[0], "EOF")
		require.Contains(t, got[1], "check the token")
		require.Contains(t, got[len(got)-1], "connected again")

		time.Sleep(steady) // it holds: the next loss is news again
		p.drop()
		p = s.accept()
		p.join("room:1")
		synctest.Wait()
		again := lines()
		require.Len(t, again, 2)
		require.Contains(t, again[0], "trying again")
		require.Contains(t, again[1], "connected again")

		require.NoError(t, socket.Close()) // an expected stop is no line
		require.Zero(t, log.Len())
		require.NotContains(t, strings.Join(got, ""), "s3cret")
	})
}
