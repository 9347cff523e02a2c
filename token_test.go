package phxworker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

func TestARefusedTokenIsSaidWithItsLikelyCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, quiet)
		var log bytes.Buffer
		h.hire(Config{Secret: "not the secret", Logger: slog.New(slog.NewTextHandler(&log, nil))})
		settle(30 * time.Second)
		require.Equal(t, 1, strings.Count(log.String(), "HTTP 401"), "once, not for every attempt:\n%s", log.String())
		require.Contains(t, log.String(), "check the token, the secret")
		require.NotContains(t, log.String(), "not the secret")
		require.NotContains(t, log.String(), "eyJ", "no token may reach a log")
	})
}

func TestARunWithATokenOfSomebodyElseIsNotExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, err := mockserver.New(mockserver.Config{})
		require.NoError(t, err)
		defer other.Close()
		h := openHouse(t, mockserver.Config{WakeDebounce: 24 * time.Hour})
		h.enqueue("manual", "m1")
		var log bytes.Buffer
		_, stop := h.hire(Config{PublicKey: other.PublicKey(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		settle(time.Minute)
		require.Equal(t, "claimed", h.state("m1"))
		require.NoError(t, stop())
		require.Contains(t, log.String(), "m1")
		require.NotContains(t, log.String(), "eyJ", "no token may reach a log")
		for _, f := range h.sent("phx_join") {
			require.NotEqual(t, "run:m1", f.topic)
		}
	})
}

func TestARunWithAGoodTokenIsExecuted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, mockserver.Config{WakeDebounce: 24 * time.Hour})
		h.enqueue("manual", "m1")
		h.hire(Config{PublicKey: h.server.PublicKey()})
		settle(time.Second)
		require.Equal(t, "started", h.state("m1"))
	})
}
