package claim

import (
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// ErrRunning is returned by [Loop.Run] of a loop that is running: two of them would
// claim twice as often as the back-off allows.
var ErrRunning = errors.New("claim: the loop is running already; make another with NewLoop, with its own pool")

// ErrNotReady is returned by a [Claimer] that has sent nothing, because it is not ready any
// more. The claim does not count, and is made when the Claimer is ready again, if there
// is still a reason for it then.
var ErrNotReady = errors.New("not ready to claim: nothing was sent")

// errTimeout ends a claim.
var errTimeout = errors.New("the server did not answer the claim in time; a run it may have given is lost")

// errNoID refuses a run that has no topic to join.
var errNoID = errors.New("the server gave it no id")

// ConfigError is returned by [Loop.Run] of a loop that cannot work.
type ConfigError struct {
	Field string // the field of Config that must be set
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("claim: Config.%s is not set; a loop needs a Pool, a Claimer and a Starter, which is a Prefetcher as well with Prefetch", e.Field)
}

// KeyError is a text that [NewVerifier] does not take as a public key. It never
// has the text itself, which may be a private key given by mistake.
type KeyError struct {
	Problem string // what is wrong with it
	Err     error  // the cause, may be nil
}

func (e *KeyError) Error() string {
	const remedy = "give the RSA public key as PEM, or that PEM in base64 (Lightning's WORKER_LIGHTNING_PUBLIC_KEY)"
	if e.Err != nil {
		return fmt.Sprintf("public key for run tokens: %s: %v; %s", e.Problem, e.Err, remedy)
	}
	return fmt.Sprintf("public key for run tokens: %s; %s", e.Problem, remedy)
}

func (e *KeyError) Unwrap() error { return e.Err }

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

func (e *TokenError) Unwrap() error { return e.Err }
