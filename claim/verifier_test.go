package claim_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
)

func TestVerify(t *testing.T) {
	lightning, stranger := newKey(t), newKey(t)
	verifier := lightning.verifier(t)
	with := func(name string, value any) func(testing.TB) string {
		return func(t testing.TB) string {
			claims := runClaims("r1")
			claims[name] = value
			if value == nil {
				delete(claims, name)
			}
			return lightning.signClaims(t, claims)
		}
	}
	tests := []struct {
		name  string
		token func(t testing.TB) string
		later time.Duration // when it is verified
		err   string        // "" if it is good
		// misfit is set when it is the key that does not fit, and not this token alone.
		misfit bool
	}{
		{name: "as Lightning signs it", token: func(t testing.TB) string { return lightning.sign(t, "r1") }},
		{name: "without exp and nbf", token: func(t testing.TB) string {
			return lightning.signClaims(t, jwt.MapClaims{"iss": "Lightning", "id": "r1", "sub": "run:r1"})
		}},
		{name: "expired, within the leeway", token: with("nbf", 0), later: time.Hour + 4*time.Second},
		{name: "expired", token: with("nbf", 0), later: time.Hour + 6*time.Second, err: "expired"},
		{name: "without exp", token: with("exp", nil), later: 24 * time.Hour},
		{name: "without exp, and old", token: with("exp", nil), later: 24*time.Hour + 6*time.Second, err: "it does not tell its end, and is older than 24h0m0s"},
		{name: "without exp, and old by iat", token: func(t testing.TB) string {
			return lightning.signClaims(t, jwt.MapClaims{"iss": "Lightning", "id": "r1", "sub": "run:r1", "iat": time.Now().Unix()})
		}, later: 25 * time.Hour, err: "it does not tell its end"},
		{name: "another key", token: func(t testing.TB) string { return stranger.sign(t, "r1") }, err: "signature is invalid", misfit: true},
		{name: "another issuer", token: with("iss", "lightning"), err: "issuer"},
		{name: "no issuer", token: with("iss", nil), err: "iss"},
		{name: "another run", token: func(t testing.TB) string { return lightning.sign(t, "r2") }, err: `it is for the run "r2"`},
		{name: "no id", token: with("id", nil), err: `it is for the run ""`},
		{name: "an id that is no string", token: with("id", 1), err: "malformed", misfit: true},
		{name: "another subject", token: with("sub", "run:r2"), err: `its subject is "run:r2", not "run:r1"`},
		{name: "no subject, as older Lightnings sign it", token: with("sub", nil)},
		{name: "no subject, and of another run", token: func(t testing.TB) string {
			return lightning.signClaims(t, jwt.MapClaims{"iss": "Lightning", "id": "r2"})
		}, err: `it is for the run "r2"`},
		{name: "not signed", token: func(t testing.TB) string {
			token, err := jwt.NewWithClaims(jwt.SigningMethodNone, runClaims("r1")).SignedString(jwt.UnsafeAllowNoneSignatureType)
			require.NoError(t, err)
			return token
		}, err: "signing method none is invalid", misfit: true},
		{name: "the public key used as a shared secret", token: func(t testing.TB) string {
			token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, runClaims("r1")).SignedString([]byte(lightning.publicPEM(t)))
			require.NoError(t, err)
			return token
		}, err: "signing method HS256 is invalid", misfit: true},
		{name: "another RSA method of the same key", token: func(t testing.TB) string {
			token, err := jwt.NewWithClaims(jwt.SigningMethodRS512, runClaims("r1")).SignedString(lightning.PrivateKey)
			require.NoError(t, err)
			return token
		}, err: "signing method RS512 is invalid", misfit: true},
		{name: "a changed payload", token: func(t testing.TB) string {
			mine, theirs := strings.Split(lightning.sign(t, "r2"), "."), strings.Split(stranger.sign(t, "r1"), ".")
			return strings.Join([]string{mine[0], theirs[1], mine[2]}, ".")
		}, err: "signature is invalid", misfit: true},
		{name: "no token", token: func(testing.TB) string { return "" }, err: "malformed", misfit: true},
		{name: "no JWT", token: func(testing.TB) string { return "a.b.c" }, err: "malformed", misfit: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				token := tt.token(t)
				time.Sleep(tt.later)
				err := verifier.Verify(claim.Run{ID: "r1", Token: token})
				if tt.err == "" {
					require.NoError(t, err)
					return
				}
				var refused *claim.TokenError
				require.ErrorAs(t, err, &refused)
				require.Equal(t, "r1", refused.RunID)
				require.Equal(t, tt.misfit, refused.Misfit())
				require.ErrorContains(t, err, `token of run "r1" refused`)
				require.ErrorContains(t, err, tt.err)
				if len(token) > 10 {
					require.NotContains(t, err.Error(), token)
				}
			})
		})
	}
}

func TestVerifyAllowsForClocksThatDiffer(t *testing.T) {
	lightning := newKey(t)
	verifier := lightning.verifier(t)
	synctest.Test(t, func(t *testing.T) {
		claims := runClaims("r1")
		claims["nbf"] = time.Now().Add(10 * time.Second).Unix()
		run := claim.Run{ID: "r1", Token: lightning.signClaims(t, claims)}
		require.ErrorIs(t, verifier.Verify(run), jwt.ErrTokenNotValidYet)
		time.Sleep(6 * time.Second)
		require.NoError(t, verifier.Verify(run), "4 s ahead")
	})
}

func TestNewVerifier(t *testing.T) {
	k := newKey(t)
	public := k.publicPEM(t)
	encoded := base64.StdEncoding.EncodeToString([]byte(public))
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	require.NoError(t, err)
	elliptical, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	ellipticalDER, err := x509.MarshalPKIXPublicKey(&elliptical.PublicKey)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k.PrivateKey)
	require.NoError(t, err)
	private := asPEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(k.PrivateKey))

	tests := []struct {
		name string
		text string
		err  string // "" if it is good
	}{
		{name: "base64 of PEM", text: encoded},
		{name: "base64 in lines", text: encoded[:76] + "\n  " + encoded[76:] + "\n"},
		{name: "base64 without padding", text: strings.TrimRight(encoded, "=")},
		{name: "PEM", text: public},
		{name: "PEM with white space around", text: "\n  " + public + "\n"},
		{name: "PKCS #1", text: asPEM("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&k.PublicKey))},
		{name: "a certificate", text: asPEM("CERTIFICATE", certificate)},
		{name: "nothing", text: " \n", err: "it is empty"},
		{name: "neither", text: "not a key!", err: "neither PEM nor base64"},
		{name: "base64 of something else", text: base64.StdEncoding.EncodeToString([]byte("hello")), err: "no PEM block"},
		{name: "PEM cut short", text: public[:100], err: "no PEM block"},
		{name: "a damaged block", text: asPEM("PUBLIC KEY", []byte("hello")), err: "damaged"},
		{name: "a damaged PKCS #1 block", text: asPEM("RSA PUBLIC KEY", []byte("hello")), err: "damaged"},
		{name: "a private key", text: private, err: "it is a private key"},
		{name: "a private key in base64", text: base64.StdEncoding.EncodeToString([]byte(private)), err: "it is a private key"},
		{name: "a damaged certificate", text: asPEM("CERTIFICATE", []byte("hello")), err: "damaged"},
		{name: "an elliptic curve", text: asPEM("PUBLIC KEY", ellipticalDER), err: "it is not an RSA key"},
		{name: "too short a key", text: key{small}.publicPEM(t), err: "it has 1024 bits"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			verifier, err := claim.NewVerifier(tt.text)
			if tt.err == "" {
				require.NoError(t, err)
				require.NoError(t, verifier.Verify(claim.Run{ID: "r1", Token: k.sign(t, "r1")}))
				return
			}
			require.ErrorContains(t, err, tt.err)
			require.ErrorContains(t, err, "WORKER_LIGHTNING_PUBLIC_KEY")
			require.NotContains(t, err.Error(), "MII", "nothing of the key")
		})
	}
}

func TestATokenIsNeverPrinted(t *testing.T) {
	logger, book := logBook()
	run := claim.Run{ID: "r1", Token: "secret"}
	logger.Info("whole", "run", run)
	asJSON := slog.New(slog.NewJSONHandler(writer(func(p []byte) (int, error) {
		require.NotContains(t, string(p), "secret")
		return len(p), nil
	}), nil))
	asJSON.Info("whole", "run", run)
	require.NotContains(t, book(), "secret")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(verb, run), "secret", verb)
	}
	sent, err := json.Marshal(run)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"r1","token":"secret"}`, string(sent))
}

// FuzzToken guards that no text makes the verifier panic, and that none is taken
// that was not signed with the key.
func FuzzToken(f *testing.F) {
	lightning := newKey(f)
	verifier := lightning.verifier(f)
	good := lightning.sign(f, "r1")
	parts := strings.Split(good, ".")
	f.Add(good)
	f.Add(newKey(f).sign(f, "r1"))
	f.Add("")
	f.Add("..")
	f.Add(parts[0] + "." + parts[1] + ".")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".")
	f.Add(base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256"}`)) + "." + parts[1] + "." + parts[2])
	f.Add(parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"id":{},"exp":1e999}`)) + "." + parts[2])
	f.Add(good + "\n")
	f.Fuzz(func(t *testing.T, token string) {
		err := verifier.Verify(claim.Run{ID: "r1", Token: token})
		if token == good {
			require.NoError(t, err)
		}
		if err != nil {
			return
		}
		// The key was made for this test and has signed one text only. Its
		// signature can be spelled in several ways: base64 may have line breaks.
		got := strings.Split(token, ".")
		require.Len(t, got, 3)
		require.Equal(t, parts[:2], got[:2])
		signature, err := base64.RawURLEncoding.DecodeString(parts[2])
		require.NoError(t, err)
		spelled, err := base64.RawURLEncoding.DecodeString(got[2])
		require.NoError(t, err)
		require.Equal(t, signature, spelled)
	})
}

func TestARunWithABadTokenIsRefusedAndTheLoopGoesOn(t *testing.T) {
	lightning, stranger := newKey(t), newKey(t)
	verifier := lightning.verifier(t)
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		bad := claim.Run{ID: "bad", Token: stranger.sign(t, "bad")}
		good := claim.Run{ID: "good", Token: lightning.sign(t, "good")}
		o.queued["manual"] = []claim.Run{bad, good}
		l := runLoop(t, "manual:2", o, claim.Config{Verifier: verifier, Logger: logger})
		require.Empty(t, o.runs(""))
		require.Equal(t, 2, l.pool.Counts().Open, "its slot is free")

		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"good"}, o.runs(""))
		require.Equal(t, 1, count(book(), "level=ERROR"), book())
		require.Contains(t, book(), "run_id=bad")
		require.Contains(t, book(), "signature is invalid")
		require.NotContains(t, book(), bad.Token)
		require.Equal(t, uint64(1), l.Stats().Refused)
		require.Equal(t, uint64(1), l.Stats().Started)
	})
}

func TestABadTokenAmongGoodOnesStopsOnlyItsRun(t *testing.T) {
	lightning, stranger := newKey(t), newKey(t)
	verifier := lightning.verifier(t)
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		for _, id := range []string{"r1", "r2", "r3"} {
			signer := lightning
			if id == "r2" {
				signer = stranger
			}
			o.queued["manual"] = append(o.queued["manual"], claim.Run{ID: id, Token: signer.sign(t, id)})
		}
		l := runLoop(t, "manual:3", o, claim.Config{Verifier: verifier, Options: claim.Options{DemandAll: true}})
		require.Equal(t, []string{"r1", "r3"}, o.runs(""))
		require.Equal(t, 1, l.pool.Counts().Open)
	})
}
