package lightning

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// WorkerToken makes a token that opens a worker's socket: HS256 over the bytes of the
// secret, with the three claims that Lightning requires.
func WorkerToken(secret, workerID string) string {
	token, _ := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{ // HMAC signs whatever it is given
		"iss": "urn:openfn:worker", "iat": time.Now().Unix(), "worker_id": workerID,
	}).SignedString([]byte(secret))
	return token
}

// verifyWorker checks a worker's token: HS256, the issuer urn:openfn:worker, and
// the presence of iat and worker_id, which it returns. nbf is honoured if
// present, exp never.
func verifyWorker(token, secret string, now time.Time) (workerID string, err error) {
	if token == "" {
		return "", errors.New("the parameter token is missing")
	}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithoutClaimsValidation())
	claims := jwt.MapClaims{}
	if _, err := parser.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return []byte(secret), nil }); err != nil {
		return "", fmt.Errorf("worker token: %w (is WORKER_SECRET the same on both sides?)", err)
	}
	if iss, _ := claims.GetIssuer(); iss != "urn:openfn:worker" {
		return "", errors.New("worker token: iss must be urn:openfn:worker")
	}
	for _, name := range []string{"iat", "worker_id"} {
		if claims[name] == nil {
			return "", fmt.Errorf("worker token: the claim %s is missing", name)
		}
	}
	nbf, err := claims.GetNotBefore()
	if err != nil || nbf != nil && now.Before(nbf.Time) {
		return "", errors.New("worker token: not valid yet (nbf)")
	}
	return fmt.Sprint(claims["worker_id"]), nil
}

// signer makes run tokens.
type signer struct {
	opaque bool

	mu  sync.Mutex // guards key while it is made
	key *rsa.PrivateKey
}

func (s *signer) private() (*rsa.PrivateKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, fmt.Errorf("make a key for run tokens: %w", err)
		}
		s.key = key
	}
	return s.key, nil
}

// token makes the token of a run. Its times are of whole seconds: of a run that is
// given again it must be told apart by something else.
func (s *signer) token(runID string, notBefore, expires time.Time, again bool) (string, error) {
	if s.opaque {
		return rand.Text(), nil
	}
	key, err := s.private()
	if err != nil {
		return "", err
	}
	claims := jwt.MapClaims{
		"iss": "Lightning", "id": runID, "sub": "run:" + runID,
		"nbf": notBefore.Unix(), "exp": expires.Unix(),
	}
	if again {
		claims["jti"] = rand.Text()
	}
	return jwt.NewWithClaims(jwt.SigningMethodRS256, claims).SignedString(key)
}

// publicKey is the key as WORKER_LIGHTNING_PUBLIC_KEY takes it: PEM in base64.
func (s *signer) publicKey() (string, error) {
	key, err := s.private()
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return "", fmt.Errorf("encode the public key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), nil
}
