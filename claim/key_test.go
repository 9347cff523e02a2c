package claim_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
)

// key signs run tokens as Lightning does.
type key struct{ *rsa.PrivateKey }

func newKey(t testing.TB) key {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return key{private}
}

func (k key) publicPEM(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	require.NoError(t, err)
	return asPEM("PUBLIC KEY", der)
}

func (k key) verifier(t testing.TB) *claim.Verifier {
	t.Helper()
	verifier, err := claim.NewVerifier(base64.StdEncoding.EncodeToString([]byte(k.publicPEM(t))))
	require.NoError(t, err)
	return verifier
}

// sign returns the token of a run that is valid for an hour.
func (k key) sign(t testing.TB, id string) string {
	t.Helper()
	return k.signClaims(t, runClaims(id))
}

func (k key) signClaims(t testing.TB, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodRS256, claims).SignedString(k.PrivateKey)
	require.NoError(t, err)
	return token
}

func runClaims(id string) jwt.MapClaims {
	return jwt.MapClaims{
		"iss": "Lightning", "id": id, "sub": "run:" + id,
		"nbf": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
}

func asPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
