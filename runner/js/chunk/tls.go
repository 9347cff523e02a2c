package chunk

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
)

// tlsInNodesWords returns the members of the error that a package would get in Node for a connection that TLS refused, nil for
// another error.
func tlsInNodesWords(err error) map[string]any {
	var record tls.RecordHeaderError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	var refused *tls.CertificateVerificationError
	words := func(message, code string) map[string]any { return map[string]any{"message": message, "code": code} }
	switch {
	case errors.As(err, &record):
		return words("SSL routines:ssl3_get_record:wrong version number", "ERR_SSL_WRONG_VERSION_NUMBER")
	case errors.As(err, &hostname):
		members := words("Hostname/IP does not match certificate's altnames: "+mismatch(hostname), "ERR_TLS_CERT_ALTNAME_INVALID")
		members["host"], members["reason"] = hostname.Host, mismatch(hostname)
		return members
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return words("certificate has expired", "CERT_HAS_EXPIRED")
	case errors.As(err, &invalid):
		return words(invalid.Error(), "CERT_REJECTED")
	case errors.As(err, &unknown) && errors.As(err, &refused):
		return words(untrusted(refused.UnverifiedCertificates))
	}
	return nil
}

// untrusted says why nobody is trusted who has issued a chain of certificates.
func untrusted(chain []*x509.Certificate) (message, code string) {
	last := chain[len(chain)-1]
	switch itself := bytes.Equal(last.RawSubject, last.RawIssuer); {
	case itself && len(chain) == 1:
		return "self-signed certificate", "DEPTH_ZERO_SELF_SIGNED_CERT"
	case itself:
		return "self-signed certificate in certificate chain", "SELF_SIGNED_CERT_IN_CHAIN"
	case len(chain) == 1:
		return "unable to verify the first certificate", "UNABLE_TO_VERIFY_LEAF_SIGNATURE"
	}
	return "unable to get local issuer certificate", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY"
}

// mismatch says of whom a certificate is, where it is not that of a host.
func mismatch(err x509.HostnameError) string {
	own := err.Certificate
	addresses := make([]string, len(own.IPAddresses))
	for i, ip := range own.IPAddresses {
		addresses[i] = ip.String()
	}
	if net.ParseIP(err.Host) != nil {
		return "IP: " + err.Host + " is not in the cert's list: " + strings.Join(addresses, ", ")
	}
	var names []string
	for _, name := range own.DNSNames {
		names = append(names, "DNS:"+name)
	}
	for _, address := range addresses {
		names = append(names, "IP Address:"+address)
	}
	switch {
	case len(own.DNSNames) > 0:
		return "Host: " + err.Host + ". is not in the cert's altnames: " + strings.Join(names, ", ")
	case own.Subject.CommonName != "":
		return "Host: " + err.Host + ". is not cert's CN: " + own.Subject.CommonName
	}
	return "Cert does not contain a DNS name"
}
