package openstack_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// selfSigned returns a certificate that is its own authority, and its text.
func selfSigned(t *testing.T, template *x509.Certificate) (served tls.Certificate, text string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template.SerialNumber = big.NewInt(1)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	template.IsCA, template.BasicConstraintsValid = true, true
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(block)
}

// The common name of a certificate is the host, which was enough for clients of earlier years.
func TestCertificateWithoutAlternativeNamesIsExplained(t *testing.T) {
	t.Parallel()
	const host = "127.0.0.1"
	name := pkix.Name{CommonName: host}
	for test, c := range map[string]struct {
		template *x509.Certificate
		fragment string
	}{
		"no alternative names": {
			&x509.Certificate{Subject: name},
			"its certificate has no Subject Alternative Names, and the common name does not count. " +
				"Replace the cloud's certificate by one with the host of auth_url among its Subject",
		},
		"another host": {
			&x509.Certificate{Subject: name, DNSNames: []string{"k.example"}},
			"not valid for this host name",
		},
		"another address": {
			&x509.Certificate{Subject: name, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 2)}},
			"not valid for this host name",
		},
		"only an address for mail": {
			&x509.Certificate{Subject: name, EmailAddresses: []string{"a@k.example"}},
			"not valid for this host name",
		},
	} {
		t.Run(test, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			served, text := selfSigned(t, c.template)
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.TLS = &tls.Config{Certificates: []tls.Certificate{served}, MinVersion: tls.VersionTLS12}
			server.StartTLS()
			t.Cleanup(server.Close)
			s.front = server.URL + "/v3"
			s.clouds(simulator.Clouds{})
			s.write("ca.crt", text)
			client := s.client()
			s.repeat(client, failure{reason: openstack.CloudUnreachable, fragment: c.fragment})
		})
	}
}
