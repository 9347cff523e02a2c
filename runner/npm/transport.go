package npm

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/phxworker/phxworker/runner/egress"
)

const dialTimeout = 10 * time.Second

// A transport makes the connections. Registries that the settings name may be anywhere;
// other hosts, which registries name, have to be public.
type transport struct {
	settings   *Settings
	registries map[string]bool // hosts
	proxy      func(*url.URL) (*url.URL, error)
	roots      *x509.CertPool

	hosts once[*http.Transport] // by host
}

func newTransport(s *Settings) (*transport, error) {
	t := &transport{settings: s, registries: make(map[string]bool)}
	proxies := httpproxy.Config{HTTPProxy: s.proxy, HTTPSProxy: s.secureProxy, NoProxy: s.noProxy}
	t.proxy = proxies.ProxyFunc()
	t.registries[hostOf(s.registry)] = true
	for _, address := range s.scopes {
		t.registries[hostOf(address)] = true
	}
	if len(s.authorities) > 0 {
		t.roots = x509.NewCertPool()
		if !t.roots.AppendCertsFromPEM(s.authorities) {
			return nil, misconfigured("cafile or ca has no certificates")
		}
	} else if len(s.moreAuthorities) > 0 {
		var err error
		if t.roots, err = x509.SystemCertPool(); err != nil {
			t.roots = x509.NewCertPool()
		}
		t.roots.AppendCertsFromPEM(s.moreAuthorities)
	}
	return t, nil
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	host, err := t.hosts.do(r.URL.Host, func() (*http.Transport, error) { return t.open(r.URL) })
	if err != nil {
		return nil, err
	}
	return host.RoundTrip(r)
}

func (t *transport) open(u *url.URL) (*http.Transport, error) {
	proxied, err := t.proxy(u)
	if err != nil {
		return nil, misconfigured("the proxy is not an address") // which may have a password in it
	}
	known := t.registries[u.Host]
	if !known && notPublicName(u.Hostname()) {
		return nil, errNotPublic
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	if !known && proxied == nil {
		dialer.ControlContext = onlyPublic
	}
	trust := &tls.Config{RootCAs: t.roots, InsecureSkipVerify: t.settings.insecure} //nolint:gosec // strict-ssl=false says so
	if own := t.settings.loginFor(u); own.certFile != "" {
		pair, err := tls.LoadX509KeyPair(own.certFile, own.keyFile)
		if err != nil {
			return nil, misconfigured("certfile and keyfile of %s cannot be used: %s", u.Host, oneLine(err))
		}
		trust.Certificates = []tls.Certificate{pair}
	}
	return &http.Transport{
		Proxy:                  func(r *http.Request) (*url.URL, error) { return t.proxy(r.URL) },
		DialContext:            dialer.DialContext,
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  t.settings.stall,
		MaxResponseHeaderBytes: 1 << 20,
		MaxConnsPerHost:        t.settings.sockets,
		MaxIdleConnsPerHost:    t.settings.sockets,
		IdleConnTimeout:        time.Minute,
		ForceAttemptHTTP2:      true,
	}, nil
}

func (t *transport) close() {
	t.hosts.each(func(one *http.Transport) { one.CloseIdleConnections() })
}

var errNotPublic = errors.New("a host that no setting names must be at a public address, and this one is not")

// onlyPublic refuses a connection to an address of this machine or its network.
func onlyPublic(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !public(at.Addr()) {
		return errNotPublic
	}
	return nil
}

func public(at netip.Addr) bool { return egress.ClassOf(at) == egress.Public }

// notPublicName reports whether a name is this machine's, or an address that is not public:
// behind a proxy, names are all that can be looked at.
func notPublicName(name string) bool {
	if at, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return !public(at)
	}
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || !strings.Contains(name, ".")
}
