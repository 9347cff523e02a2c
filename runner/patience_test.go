package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
)

// Guards against a run that was joined late, because the server was away, and is
// given its whole time from then on: its token would be over before it ended.
func TestALateJoinDoesNotProlongTheRunsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSigningWire(t, mockserver.Config{})
		claimed := time.Now()
		id, token := w.claim(planOf(""))
		over := claimed.Add(lifetime(token))
		time.Sleep(4 * time.Minute)
		outcome := New(Config{Engine: Func(func(ctx context.Context, _ *Run) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})}).Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token, Claimed: claimed}, nil)
		require.NoError(t, outcome.Err)
		require.True(t, time.Now().Before(over), "%s too late", time.Since(over))
		require.Equal(t, "kill", w.result("r1").Reason)
	})
}

// Guards against a panic, which takes the worker down, over a token that does not
// tell when it is over.
func TestATokenNeedNotTellItsLifetime(t *testing.T) {
	signed := func(claims jwt.MapClaims) string {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("secret"))
		require.NoError(t, err)
		return token
	}
	tests := []struct {
		name, token string
		want        time.Duration
	}{
		{name: "both ends", token: signed(jwt.MapClaims{"nbf": 1000, "exp": 1300}), want: 5 * time.Minute},
		{name: "issued at", token: signed(jwt.MapClaims{"iat": 1000, "exp": 1300}), want: 5 * time.Minute},
		{name: "no beginning", token: signed(jwt.MapClaims{"exp": 1300})},
		{name: "no end", token: signed(jwt.MapClaims{"nbf": 1000})},
		{name: "no token of that kind", token: "opaque"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, lifetime(tt.token)) })
	}
}

// Guards against a bound that nobody is told of, and against one line for each run.
func TestATokenThatDoesNotTellItsEndIsToldOnce(t *testing.T) {
	for _, opaque := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newSigningWire(t, mockserver.Config{OpaqueTokens: opaque})
			var log bytes.Buffer
			r := New(Config{Engine: Func(success), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for _, id := range []string{"a", "b", "c"} {
				_, token := w.claim(mockserver.Run{Plan: json.RawMessage(`{"id":"` + id + `","jobs":[{"id":"j"}]}`)})
				require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
			}
			told := 0
			if opaque {
				told = 1
			}
			require.Equal(t, told, strings.Count(log.String(), `msg="the server's run tokens do not tell how long they live; what cannot be reported of a run is given up when it was claimed so long ago" after=24h0m0s`), log.String())
		})
	}
}
