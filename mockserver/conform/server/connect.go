package server

import (
	"net/http"
	"net/url"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

var connectCases = []entry{
	{suite.Case{
		ID: "S1.1", Level: suite.Must, Title: "a worker with a good token is let in",
		Why:    "Nothing works otherwise: HS256 over the bytes of WORKER_SECRET, with iss, iat and worker_id, is the only token that workers make.",
		Source: ofLightning + "HS256, iss urn:openfn:worker, iat, worker_id; " + ofWorker + "such tokens",
	}, goodToken},
	{suite.Case{
		ID: "S1.2", Level: suite.Must, Title: "a token without an end that was made long ago is good",
		Why:    "Workers make one token at their start and show it at each reconnect, for as long as they live.",
		Source: ofWorker + "the token is made once; " + ofLightning + "of iat only that it is there",
	}, oldToken},
	{suite.Case{
		ID: "S1.3", Level: suite.Must, Title: "a token signed with another secret is refused",
		Why:    "Who is let in can claim runs, and with them the credentials of the projects.",
		Source: ofLightning + "401 at the upgrade; stock " + ofPhoenix + "403",
	}, otherSecret},
	{suite.Case{
		ID: "S1.4", Level: suite.Must, Title: "no token, and what is no token, is refused",
		Why:    "Who is let in can claim runs, and with them the credentials of the projects.",
		Source: ofLightning + "401 at the upgrade",
	}, noToken},
	{suite.Case{
		ID: "S1.5", Level: suite.Must, Title: "a token that says it is not signed is refused",
		Why:    `A verifier that lets the token choose its algorithm takes "none", and then everybody is let in.`,
		Source: "RFC 8725, 3.1; " + ofLightning + "HS256 only",
	}, unsignedToken},
	{suite.Case{
		ID: "S1.6", Level: suite.Should, Title: "a token of another issuer is refused",
		Why:    "The same secret may sign other tokens, which are not meant to open this door.",
		Source: ofLightning + "iss must be urn:openfn:worker",
	}, otherIssuer},
	{suite.Case{
		ID: "S1.7", Level: suite.Should, Title: "a token without worker_id or without iat is refused",
		Why:    "The server has to know the worker again after a reconnect, and across its sockets.",
		Source: ofLightning + "iss, iat and worker_id are required",
	}, missingClaims},
	{suite.Case{
		ID: "S1.8", Level: suite.Should, Title: "a token that is not valid yet is refused",
		Why:    "A token says from when on it is to be good, and somebody relied on that.",
		Source: ofLightning + "nbf is checked where it is there; exp is not looked at, so there is no case of it",
	}, earlyToken},
}

func goodToken(s *session) {
	c := s.connect()
	if err := c.alive(); err != nil {
		s.t.Fatalf("the socket to work", "%v", err)
	}
}

func oldToken(s *session) {
	c := claims(uuid.NewString())
	c["iat"] = time.Now().Add(-30 * 24 * time.Hour).Unix()
	if conn, status := s.dial("", token(sign(s.target.Secret, c))); conn == nil {
		s.t.Fatalf("a token that is a month old to be good", "%s", s.refusal(status))
	}
}

func otherSecret(s *session) {
	s.wantRefused(sign(s.target.Secret+"x", claims(uuid.NewString())))
}

func noToken(s *session) {
	s.wantRefused("")
	s.wantRefused("no.token.atall")
	if c, status := s.dial("", nil); c != nil || !isRefusal(status) {
		s.t.Fatalf("the upgrade without the parameter token to be refused with 401 or 403", "%s", s.refusal(status))
	}
}

func unsignedToken(s *session) {
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, claims(uuid.NewString())).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		panic("the kit cannot make its own token: " + err.Error())
	}
	s.wantRefused(unsigned)
}

func otherIssuer(s *session) {
	s.wantRefused(s.tokenWith("iss", "urn:example:someone-else"))
	s.wantRefused(s.tokenWith("iss", nil))
}

func missingClaims(s *session) {
	s.wantRefused(s.tokenWith("worker_id", nil))
	s.wantRefused(s.tokenWith("iat", nil))
}

func earlyToken(s *session) { s.wantRefused(s.tokenWith("nbf", time.Now().Add(time.Hour).Unix())) }

// tokenWith makes a token that is good but for one claim; nil leaves that out.
func (s *session) tokenWith(claim string, value any) string {
	c := claims(uuid.NewString())
	c[claim] = value
	if value == nil {
		delete(c, claim)
	}
	return sign(s.target.Secret, c)
}

func token(t string) url.Values { return url.Values{"token": {t}} }

// wantRefused wants that nobody is let in with the token.
func (s *session) wantRefused(t string) {
	if c, status := s.dial("", token(t)); c != nil || !isRefusal(status) {
		s.t.Fatalf("the upgrade to be refused with 401 or 403", "%s", s.refusal(status))
	}
}

func isRefusal(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}
