package claim

import (
	"cmp"
	"crypto/rsa"
	"encoding/base64"
	"encoding/pem"
	"errors"
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
// publicKey: an RSA key of at least 2048 bits as PEM, or in a certificate, or that PEM in base64, which
// is what Lightning's WORKER_LIGHTNING_PUBLIC_KEY holds. The error says what is wrong
// with anything else, without any of it.
func NewVerifier(publicKey string) (*Verifier, error) {
	key, err := parsePublicKey(publicKey)
	if err != nil {
		return nil, fmt.Errorf("public key for run tokens: %w; "+
			"give the RSA public key as PEM, or that PEM in base64 (Lightning's WORKER_LIGHTNING_PUBLIC_KEY)", err)
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

// TokenError is a run whose token was refused. It never has the token.
type TokenError struct {
	RunID string
	Err   error // why, for a person; of golang-jwt where it found the fault
}

func (e *TokenError) Error() string {
	return fmt.Sprintf("token of run %q refused: %v", e.RunID, e.Err)
}

// Misfit reports whether the token was not signed with the other half of the key, or is no
// signed token at all. Then hardly any run of that server can be verified, while a token that
// is too old, or another run's, says nothing of the next.
func (e *TokenError) Misfit() bool {
	return errors.Is(e.Err, jwt.ErrTokenSignatureInvalid) || errors.Is(e.Err, jwt.ErrTokenMalformed)
}

// Early reports whether the token will be good, later on: the clock of this machine is behind that of the server, whose
// next run is early as well.
func (e *TokenError) Early() bool {
	return errors.Is(e.Err, jwt.ErrTokenNotValidYet) || errors.Is(e.Err, jwt.ErrTokenUsedBeforeIssued)
}

func (e *TokenError) Unwrap() error { return e.Err }

// parsePublicKey never has the text in its error: it may be a private key given by mistake.
func parsePublicKey(text string) (*rsa.PublicKey, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("it is empty")
	}
	data := []byte(text)
	if !strings.HasPrefix(text, "-----BEGIN") {
		// Shells and YAML break long lines, and some tools leave out the padding.
		joined := strings.TrimRight(strings.Join(strings.Fields(text), ""), "=")
		var err error
		if data, err = base64.RawStdEncoding.DecodeString(joined); err != nil {
			return nil, fmt.Errorf("it is neither PEM nor base64: %w", err)
		}
	}
	switch block, _ := pem.Decode(data); {
	case block == nil:
		return nil, errors.New("there is no PEM block in it")
	case strings.Contains(block.Type, "PRIVATE KEY"):
		return nil, errors.New("it is a private key, which must not leave Lightning")
	}
	key, err := jwt.ParseRSAPublicKeyFromPEM(data)
	switch {
	case errors.Is(err, jwt.ErrNotRSAPublicKey):
		return nil, errors.New("it is not an RSA key")
	case err != nil:
		return nil, fmt.Errorf("the PEM block is damaged, or no public key: %w", err)
	case key.N.BitLen() < minKeyBits:
		return nil, fmt.Errorf("it has %d bits, and RS256 needs at least %d", key.N.BitLen(), minKeyBits)
	}
	return key, nil
}
