package claim

import (
	"cmp"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	tokenIssuer = "Lightning"
	tokenLeeway = 5 * time.Second
	// Less is refused by RFC 7518, section 3.3, and by OpenFn's own worker.
	minKeyBits = 2048
	// maxAge is how old a token may be that does not tell its end. Lightning makes one when it
	// gives a run away; what is older was kept, and by somebody else perhaps.
	maxAge = 24 * time.Hour
)

// Verifier checks the tokens that Lightning signs for runs. It may be used by any
// number of loops at once.
type Verifier struct {
	key    *rsa.PublicKey
	parser *jwt.Parser
}

// runClaims is what a run token says.
type runClaims struct {
	RunID string `json:"id"`
	jwt.RegisteredClaims
}

// NewVerifier returns a verifier for tokens signed with the private half of
// publicKey: an RSA key of at least 2048 bits as PEM, or that PEM in base64, which
// is what Lightning's WORKER_LIGHTNING_PUBLIC_KEY holds. Anything else is a
// [*KeyError].
func NewVerifier(publicKey string) (*Verifier, error) {
	key, err := parsePublicKey(publicKey)
	if err != nil {
		return nil, err
	}
	return &Verifier{key: key, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}),
		jwt.WithIssuer(tokenIssuer),
		jwt.WithLeeway(tokenLeeway),
	)}, nil
}

// Verify returns nil if run.Token is signed by Lightning (RS256, issuer
// "Lightning") for this run (claim "id" is the run's id; "sub" is "run:<id>", or missing as
// in the tokens of older Lightnings) and is valid now, give or take 5 seconds ("nbf" and "exp", each if it is there; without "exp", it is
// for 24 hours from "nbf", or "iat", if one is there).
// Otherwise it returns a [*TokenError].
func (v *Verifier) Verify(run Run) error {
	var claims runClaims
	_, err := v.parser.ParseWithClaims(run.Token, &claims, func(*jwt.Token) (any, error) { return v.key, nil })
	switch {
	case err != nil:
	case claims.RunID != run.ID:
		err = fmt.Errorf("it is for the run %q", claims.RunID)
	case claims.Subject != "" && claims.Subject != "run:"+run.ID:
		err = fmt.Errorf("its subject is %q, not %q", claims.Subject, "run:"+run.ID)
	case claims.isOld():
		err = fmt.Errorf("it does not tell its end, and is older than %v", maxAge)
	}
	if err != nil {
		return &TokenError{RunID: run.ID, Err: err}
	}
	return nil
}

// isOld reports whether a token that does not tell its end is over.
func (c *runClaims) isOld() bool {
	begin := cmp.Or(c.NotBefore, c.IssuedAt)
	return c.ExpiresAt == nil && begin != nil && time.Since(begin.Time) > maxAge+tokenLeeway
}

func parsePublicKey(text string) (*rsa.PublicKey, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, &KeyError{Problem: "it is empty"}
	}
	data := []byte(text)
	if !strings.HasPrefix(text, "-----BEGIN") {
		// Shells and YAML break long lines, and some tools leave out the padding.
		joined := strings.TrimRight(strings.Join(strings.Fields(text), ""), "=")
		var err error
		if data, err = base64.RawStdEncoding.DecodeString(joined); err != nil {
			return nil, &KeyError{Problem: "it is neither PEM nor base64", Err: err}
		}
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, &KeyError{Problem: "there is no PEM block in it"}
	}
	key, err := parseBlock(block)
	if err != nil {
		return nil, err
	}
	if bits := key.N.BitLen(); bits < minKeyBits {
		return nil, &KeyError{Problem: fmt.Sprintf("it has %d bits, and RS256 needs at least %d", bits, minKeyBits)}
	}
	return key, nil
}

func parseBlock(block *pem.Block) (*rsa.PublicKey, error) {
	switch {
	case strings.Contains(block.Type, "PRIVATE KEY"):
		return nil, &KeyError{Problem: "it is a private key, which must not leave Lightning"}
	case block.Type == "RSA PUBLIC KEY":
		key, err := x509.ParsePKCS1PublicKey(block.Bytes)
		if err != nil {
			return nil, &KeyError{Problem: "the PEM block is damaged", Err: err}
		}
		return key, nil
	case block.Type == "PUBLIC KEY":
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, &KeyError{Problem: "the PEM block is damaged", Err: err}
		}
		if key, ok := key.(*rsa.PublicKey); ok {
			return key, nil
		}
		return nil, &KeyError{Problem: "it is not an RSA key"}
	default:
		return nil, &KeyError{Problem: fmt.Sprintf("the PEM block is a %q", block.Type)}
	}
}
