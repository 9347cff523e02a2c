package options

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/getsentry/sentry-go"

	"github.com/phxworker/phxworker/claim"
)

// endpoint checks what [channel.Open] would refuse later. The URL is not quoted:
// it may hold a token.
func (r *reader) endpoint(key string) string {
	v, _ := r.take(key)
	if v.text == "mock" {
		return mockURL
	}
	u, err := url.Parse(v.text)
	switch {
	case err != nil || u.Host == "" || !slices.Contains([]string{"ws", "wss", "http", "https"}, u.Scheme):
		r.failf("%s is not a websocket URL: write it like wss://lightning.example.org/worker", v.from)
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/websocket"):
		r.failf("%s ends in /websocket, which the worker adds by itself: write it without, like wss://lightning.example.org/worker", v.from)
	case u.User != nil:
		r.failf("%s has a user name or a password in it, which the server does not want: workers prove themselves with --secret", v.from)
	}
	return v.text
}

// webURL returns the address of an HTTP API, empty if there is none.
func (r *reader) webURL(key string) string {
	v, ok := r.take(key)
	if !ok {
		return ""
	}
	u, err := url.Parse(v.text)
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) {
		r.failf("%s is not a URL: write it like https://lightning.example.org/collections", v.from)
	}
	return v.text
}

// port returns a port to listen at, or "off".
func (r *reader) port(key string) string {
	v, _ := r.take(key)
	if n, err := strconv.ParseUint(v.text, 10, 16); v.text != portOff {
		if err != nil {
			r.failf("%s %q is not a port: write a number from 0 to 65535, or off", v.from, v.text)
		}
		return strconv.FormatUint(n, 10)
	}
	return portOff
}

// host returns an address to listen at, empty for all.
func (r *reader) host(key string) string {
	v, ok := r.take(key)
	if _, err := netip.ParseAddr(v.text); ok && err != nil && strings.ContainsAny(v.text, ":/ []") {
		r.failf("%s %q is not an address to listen at: write an IP address or a name, with no port", v.from, v.text)
	}
	return v.text
}

// publicKey returns a key for run tokens, empty if there is none.
func (r *reader) publicKey(key string) string {
	v, ok := r.take(key)
	if !ok {
		return ""
	}
	if _, err := claim.NewVerifier(v.text); err != nil {
		r.failf("%s: %v", v.from, err)
	}
	return v.text
}

// dsn returns the address of a Sentry project, empty if there is none. It has a
// key in it and is not quoted.
func (r *reader) dsn(key string) string {
	v, ok := r.take(key)
	if !ok {
		return ""
	}
	if _, err := sentry.NewDsn(v.text); err != nil {
		r.failf("%s is not a Sentry DSN: copy it from the project's settings, it is like https://KEY@sentry.example.org/1", v.from)
	}
	return v.text
}

// authorities returns a TLS configuration that trusts those of the system and of
// the file, nil if there is no file.
func (r *reader) authorities(key string) *tls.Config {
	v, ok := r.take(key)
	if !ok {
		return nil
	}
	pem, err := os.ReadFile(v.text)
	if err != nil {
		r.failf("%s cannot be read: %v", v.from, err)
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system without any is common in containers
	}
	if !pool.AppendCertsFromPEM(pem) {
		r.failf("%s %s has no certificate in it: give a PEM file with BEGIN CERTIFICATE", v.from, v.text)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}
