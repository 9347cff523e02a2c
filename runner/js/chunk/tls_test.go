package chunk

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// identity is a certificate with its key.
type identity struct {
	Cert, Key string // PEM
	parsed    *x509.Certificate
	key       *ecdsa.PrivateKey
}

// issue makes an identity by an issuer, which is its own if that is nil.
func issue(t *testing.T, name string, by *identity, change func(*x509.Certificate)) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	change(template)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.parsed, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return &identity{
		Cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), Key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})),
		parsed: parsed, key: key,
	}
}

func local(c *x509.Certificate) {
	c.DNSNames, c.IPAddresses = []string{"localhost", "clinic.example"}, []net.IP{net.IPv4(127, 0, 0, 1)}
}

// serveTLS answers with the name of the client's certificate.
func serveTLS(t *testing.T, own *identity, change func(*tls.Config)) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		_, _ = io.WriteString(w, name+" asks "+r.TLS.ServerName)
	}))
	pair, err := tls.X509KeyPair([]byte(own.Cert), []byte(own.Key))
	require.NoError(t, err)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	change(server.TLS)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// What packages say of TLS holds, and fails as in Node: undici, https and fetch with a server of each kind.
func TestTLSIsTheSame(t *testing.T) {
	dir := home(t, httpPackage)
	authority := issue(t, "authority", nil, func(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign })
	other := issue(t, "other authority", nil, func(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign })
	good := issue(t, "server", authority, local)
	plain := func(*tls.Config) {}
	pool := x509.NewCertPool()
	pool.AddCert(authority.parsed)
	facts, err := json.Marshal(map[string]any{
		"good":    serveTLS(t, good, plain),
		"self":    serveTLS(t, issue(t, "itself", nil, local), plain),
		"expired": serveTLS(t, issue(t, "old", authority, func(c *x509.Certificate) { local(c); c.NotAfter = time.Now().Add(-time.Minute) }), plain),
		"wrong":   serveTLS(t, issue(t, "elsewhere", authority, func(c *x509.Certificate) { c.DNSNames = []string{"elsewhere.example"} }), plain),
		"mutual":  serveTLS(t, good, func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, pool }),
		"text":    newServer(t).URL,
		"ca":      authority.Cert, "otherCA": other.Cert,
		"client": issue(t, "clinic", authority, local), "stranger": issue(t, "stranger", other, local),
	})
	require.NoError(t, err)
	compare(t, eachWith(t, testFile(t, "tls.js"), dir, "undici", string(facts), func(int) {}))
}
