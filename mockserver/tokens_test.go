package mockserver_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

func TestWorkerTokens(t *testing.T) {
	m := newInMemory(t, mockserver.Config{Secret: "a secret"})
	none, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"iss": "urn:openfn:worker", "iat": 1, "worker_id": "w"}).
		SignedString(jwt.UnsafeAllowNoneSignatureType)
	require.NoError(t, err)
	tests := []struct {
		name   string
		token  string
		status int
	}{
		{name: "good", token: workerToken(t, "a secret", nil), status: 101},
		{name: "long expired", token: workerToken(t, "a secret", map[string]any{"exp": 1}), status: 101},
		{name: "valid since", token: workerToken(t, "a secret", map[string]any{"nbf": 1}), status: 101},
		{name: "not valid yet", token: workerToken(t, "a secret", map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), status: 401},
		{name: "another secret", token: workerToken(t, "another", nil), status: 401},
		{name: "another issuer", token: workerToken(t, "a secret", map[string]any{"iss": "me"}), status: 401},
		{name: "no issuer", token: workerToken(t, "a secret", map[string]any{"iss": nil}), status: 401},
		{name: "no iat", token: workerToken(t, "a secret", map[string]any{"iat": nil}), status: 401},
		{name: "no worker_id", token: workerToken(t, "a secret", map[string]any{"worker_id": nil}), status: 401},
		{name: "alg none", token: none, status: 401},
		{name: "garbage", token: "x.y.z", status: 401},
		{name: "none", token: "", status: 401},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := websocket.Dialer{NetDialContext: m.listener.DialContext}
			conn, resp, err := d.Dial("ws://mock/worker/websocket?vsn=2.0.0&api_version=1.2&token="+tt.token, nil)
			require.Equal(t, tt.status, resp.StatusCode)
			require.NoError(t, resp.Body.Close())
			if tt.status == 101 {
				require.NoError(t, err)
				require.NoError(t, conn.Close())
			}
		})
	}
}

func TestRunTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newInMemory(t, mockserver.Config{})
		m.enqueue(mockserver.Run{Plan: []byte(`{"id":"r1","jobs":[],"options":{"run_timeout_ms":60000}}`)})
		m.enqueue(mockserver.Run{Plan: plan("r2")})
		c := m.worker()
		claimed := time.Now()
		runs := c.claim(`{"demand":2,"worker_name":null}`)
		token := runs[0].Token

		der, err := base64.StdEncoding.DecodeString(m.PublicKey())
		require.NoError(t, err)
		block, _ := pem.Decode(der)
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		require.NoError(t, err)
		claims := jwt.MapClaims{}
		_, err = jwt.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return key, nil }, jwt.WithValidMethods([]string{"RS256"}))
		require.NoError(t, err)
		require.Equal(t, jwt.MapClaims{
			"iss": "Lightning", "id": "r1", "sub": "run:r1",
			"nbf": float64(claimed.Unix()), "exp": float64(claimed.Add(70 * time.Second).Unix()),
		}, claims)

		refused := func(topic, payload, reason string) {
			t.Helper()
			got := c.join(topic, payload)
			require.Equal(t, "error", got.Status)
			require.JSONEq(t, fmt.Sprintf(`{"reason":%q}`, reason), string(got.Payload))
		}
		refused("run:unknown", `{"token":"x"}`, "not_found")
		refused("run:r1", `{}`, "unauthorized")
		refused("run:r1", `{"token":"x"}`, "unauthorized")
		refused("run:r2", `{"token":"`+token+`"}`, "unauthorized")
		refused("run:r1", `[]`, "unauthorized")

		require.Equal(t, "ok", c.join("run:r1", `{"token":"`+token+`"}`).Status)
		time.Sleep(70*time.Second - time.Millisecond) // longer than the idle time-out
		c = m.connect()
		require.Equal(t, "ok", c.join("run:r1", `{"token":"`+token+`"}`).Status)
		time.Sleep(time.Millisecond)
		refused("run:r1", `{"token":"`+token+`"}`, "unauthorized")
	})
}
