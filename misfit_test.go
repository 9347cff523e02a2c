package phxworker

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/slots"
)

// signed is a server that signs its runs, and wakes nobody.
var signed = mockserver.Config{WakeDebounce: 24 * time.Hour}

// strangersKey is the public key of another server.
func strangersKey(t *testing.T) string {
	t.Helper()
	stranger, err := mockserver.New(mockserver.Config{})
	require.NoError(t, err)
	defer stranger.Close()
	return stranger.PublicKey()
}

// Guards against a worker that drops every run of the queue because its key does not fit.
func TestAKeyThatDoesNotFit(t *testing.T) {
	for name, server := range map[string]mockserver.Config{"another key": signed, "tokens that are not signed": quiet} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := openHouse(t, server)
				ids := crowd(30)
				h.enqueue("manual", ids...)
				var log bytes.Buffer
				worker, stop := h.hire(Config{Groups: slots.MustParse("fast_lane:1 manual>*:9"), PublicKey: strangersKey(t), Logger: slog.New(slog.NewTextHandler(&log, nil))})
				settle(50 * time.Second)
				require.Equal(t, 29, ended(h, ids)["available"], "one is enough to know")
				broken := worker.Stats().Unable[0]
				require.Equal(t, BreakerKey, broken.Name)
				require.Contains(t, broken.Error, "WORKER_LIGHTNING_PUBLIC_KEY")
				_, err := worker.Claim(t.Context())
				require.ErrorIs(t, err, ErrUnable)

				settle(3 * time.Hour) // 1, 2, 4, 8, 16, 30, 30 … minutes
				require.InDelta(t, 30-10, ended(h, ids)["available"], 1, "one a trial")
				require.NoError(t, stop())
				require.Equal(t, 1, strings.Count(log.String(), "no more claims: the tokens of runs cannot be verified"))
				require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), log.String())
				require.NotContains(t, log.String(), "eyJ", "no token may reach a log")
				require.Empty(t, h.sent("run:start"))
			})
		})
	}
}

// A key may fit again: the server was told the right one.
func TestATokenThatVerifiesEndsATrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, signed)
		h.enqueue("manual", "a", "b", "c", "d", "e")
		worker, _ := h.hire(Config{PublicKey: h.server.PublicKey()})
		settle(0)
		turnstile := worker.current().turnstile
		turnstile.trip(&turnstile.key, errors.New("as if it did not fit"))
		h.enqueue("manual", "f")
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			h.gate.release(id)
		}
		settle(50 * time.Second)
		require.Equal(t, "available", h.state("f"))
		settle(20 * time.Second)
		require.Equal(t, "started", h.state("f"))
		require.Empty(t, unable(worker))
	})
}

func TestARefusedRunGoesBackWhereTheServerTakesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := extended(t, mockserver.Config{})
		ids := crowd(9)
		h.enqueue("manual", ids...)
		h.hire(all(Config{PublicKey: strangersKey(t), MaxAttempts: -1}))
		settle(time.Hour)
		require.Equal(t, map[string]int{"available": 9}, ended(h, ids))
		require.NotEmpty(t, h.sent("run:release"))
		require.LessOrEqual(t, len(h.sent("claim")), 20)
	})
}
