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
	// minKeyBits is the least that RFC 7518, section 3.3, and OpenFn's own worker allow.
	minKeyBits = 2048
	// maxAge is the greatest age of a token without an expiry. Lightning makes a token when it gives
	// a run away, so somebody has kept an older one.
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

// NewVerifier returns a verifier for tokens signed with the private half of publicKey. The key is RSA
// with at least 2048 bits, given as PEM, as a PEM certificate, or as such a PEM in base64, as in
// Lightning's WORKER_LIGHTNING_PUBLIC_KEY. The error says what is wrong and quotes nothing of the
// text.
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

// Verify returns nil if run.Token is good, and a [*TokenError] otherwise. A good token
//
//   - is signed by Lightning: RS256, issuer "Lightning";
//   - is for this run: "id" is its id, and "sub" is "run:<id>" or missing, as with older Lightnings;
//   - is valid now, give or take 5 seconds, by "nbf" and "exp". Without "exp" it is valid for
//     24 hours from "nbf" or "iat". A token that has none of the three is valid for ever.
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

// isOld reports whether a token without an expiry is older than maxAge.
func (c *runClaims) isOld() bool {
	begin := cmp.Or(c.NotBefore, c.IssuedAt)
	return c.ExpiresAt == nil && begin != nil && time.Since(begin.Time) > maxAge+tokenLeeway
}

// TokenError says why the token of a run was refused. It never quotes the token.
type TokenError struct {
	RunID string
	Err   error // why, for a person; it wraps the error of golang-jwt, if there is one
}

func (e *TokenError) Error() string {
	return fmt.Sprintf("token of run %q refused: %v", e.RunID, e.Err)
}

// Misfit reports whether the token was signed with another key, or is no signed token at all. Then the
// next runs of that server will hardly fit either. A token that is too old, or that is another run's,
// says nothing about the next run.
func (e *TokenError) Misfit() bool {
	return errors.Is(e.Err, jwt.ErrTokenSignatureInvalid) || errors.Is(e.Err, jwt.ErrTokenMalformed)
}

// Early reports whether the token will be good, later on: the clock of this machine is behind that of the server, whose
// next run is early as well.
func (e *TokenError) Early() bool {
	return errors.Is(e.Err, jwt.ErrTokenNotValidYet) || errors.Is(e.Err, jwt.ErrTokenUsedBeforeIssued)
}

func (e *TokenError) Unwrap() error { return e.Err }

// parsePublicKey quotes nothing of the text in its error: it may be a private key, given by mistake.
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
