package phxworker

import (
	"context"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// apiVersion is the version of Lightning's worker protocol that this module
// speaks.
const apiVersion = "1.2"

// workerToken returns the token by which Lightning knows a worker: HS256 over
// the bytes of the secret. Lightning requires these three claims and asks for
// no expiry.
func workerToken(secret, workerID string) (string, error) {
	claims := jwt.MapClaims{
		"iss":       "urn:openfn:worker",
		"iat":       time.Now().Unix(),
		"worker_id": workerID,
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
}

// socketParams returns what makes the parameters of each dial, with a token of
// its own.
func socketParams(secret, workerID, version string) func(context.Context) (url.Values, error) {
	return func(context.Context) (url.Values, error) {
		token, err := workerToken(secret, workerID)
		if err != nil {
			return nil, err
		}
		return url.Values{"token": {token}, "api_version": {apiVersion}, "worker_version": {version}}, nil
	}
}

const modulePath = "github.com/phxworker/phxworker"

// Version returns the version of this module in the running program, "dev" in a
// checkout.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == modulePath && module.Version != "" && module.Version != "(devel)" {
			return module.Version
		}
	}
	return "dev"
}
