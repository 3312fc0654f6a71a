package openstack_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/library-go/pkg/crypto"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// issue returns a certificate for 127.0.0.1, and the CA of it in PEM.
func issue(t *testing.T, change func(*x509.Certificate) error) (tls.Certificate, string) {
	t.Helper()
	keys := crypto.ECDSAKeyPairGenerator{Curve: crypto.P256}
	signer, err := crypto.NewSigningCertificate("cloud", keys)
	check(t, err)
	ca := &crypto.CA{Config: signer, SerialGenerator: &crypto.RandomSerialGenerator{}}
	issued, err := ca.NewServerCertificate(sets.New("127.0.0.1"), keys, crypto.WithExtensions(change))
	check(t, err)
	text, err := crypto.EncodeCertificates(signer.Certs...)
	check(t, err)
	return tls.Certificate{
		Certificate: [][]byte{issued.Certs[0].Raw}, PrivateKey: issued.Key,
	}, string(text)
}

// wantMessage expects the same message for each of several logins at a URL.
func (s *fixture) wantMessage(front, fragment string) {
	s.t.Helper()
	s.front = front
	s.clouds(simulator.Clouds{})
	s.repeat(s.client(), failure{reason: openstack.CloudUnreachable, fragment: fragment})
}

func TestHandshakesThatFailAreExplained(t *testing.T) {
	t.Parallel()
	unusual := pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}}
	for name, test := range map[string]struct {
		config   *tls.Config
		change   func(*x509.Certificate)
		negative bool // the serial number
		want     string
	}{
		"TLS 1.1 at most": {
			config: &tls.Config{MinVersion: 1, MaxVersion: tls.VersionTLS11}, //nolint:gosec // an old server
			want:   `the server ends the TLS connection: "protocol version not supported". It offers only`,
		},
		"a client certificate with TLS 1.2": {
			config: &tls.Config{ //nolint:gosec // an old server
				ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12,
			},
			want: `the server ends the TLS connection: "handshake failure"`,
		},
		"a client certificate with TLS 1.3": {
			config: &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13},
			want:   `the server ends the TLS connection: "certificate required"`,
		},
		"no common cipher": {
			config: &tls.Config{
				MaxVersion:   tls.VersionTLS12,
				CipherSuites: []uint16{tls.TLS_RSA_WITH_RC4_128_SHA}, //nolint:gosec // an old server
			},
			want: `the server ends the TLS connection: "handshake failure"`,
		},
		"a certificate without alternative names": {
			change: func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil },
			want:   "its certificate has no Subject Alternative Names",
		},
		"a certificate for clients": {
			change: func(c *x509.Certificate) {
				c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			},
			want: "its certificate is not valid: it is not for servers. Ask the cloud's administrator",
		},
		"an expired certificate": {
			change: func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = time.Unix(0, 0), time.Unix(1e9, 0)
			},
			want: "it has expired at 2001-09-09 01:46 UTC. Ask the cloud's administrator for a new one",
		},
		"a certificate of the future": {
			change: func(c *x509.Certificate) { c.NotBefore = time.Unix(4e9, 0) },
			want:   "it is not yet valid, but from 2096-10-02 07:06 UTC on. Ask",
		},
		"a certificate for other hosts": {
			change: func(c *x509.Certificate) {
				c.IPAddresses, c.DNSNames = nil, []string{"a.example", "*.b.example", "c", "d", "e"}
			},
			want: `it is for "a.example, *.b.example, c, d" and 1 more. Write one of these names`,
		},
		"a certificate with an unknown critical extension": {
			change: func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{unusual} },
			want:   "its certificate cannot be verified",
		},
		"a certificate that cannot be parsed": {
			negative: true,
			want: `the TLS handshake fails: "failed to parse certificate from server: x509: negative ` +
				`serial number". Check the cloud's certificate`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate, ca := issue(t, func(c *x509.Certificate) error {
				if test.change != nil {
					test.change(c)
				}
				return nil
			})
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			if server.TLS = test.config; server.TLS == nil {
				server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
			}
			server.TLS.Certificates = []tls.Certificate{certificate}
			server.StartTLS()
			t.Cleanup(server.Close)
			if raw := certificate.Certificate[0]; test.negative {
				parsed, err := x509.ParseCertificate(raw)
				check(t, err)
				raw[bytes.Index(raw, parsed.SerialNumber.Bytes())] |= 0x80
			}
			s := newSimulated(t, simulator.Config{})
			s.write("ca.crt", ca)
			s.wantMessage(server.URL, test.want)
		})
	}
}

// The servers answer with a few bytes, or never.
func TestServersWithoutTLSAreExplained(t *testing.T) {
	t.Parallel()
	const alert, handshake, tls12, tls10 = 21, 22, "\x03\x03", "\x03\x01"
	record := func(kind byte, content string) string {
		return string(kind) + tls12 + "\x00" + string(byte(len(content))) + content
	}
	// A ServerHello without extensions, with the version, the random and the cipher of its sender.
	hello := tls10 + strings.Repeat("r", 32) + "\x00" + "\xc0\x2f" + "\x00"
	for name, test := range map[string]struct{ answer, want string }{
		"an alert": {
			record(alert, "\x02\x70"), `TLS connection: "unrecognized name". It knows no host of this name`,
		},
		"an unknown alert": {record(alert, "\x02\xee"), `TLS connection: "alert(238)". Check`},
		"another message":  {record(handshake, "\x0e\x00\x00\x00"), "the TLS handshake fails: "},
		"an old version": {
			record(handshake, "\x02\x00\x00"+string(byte(len(hello)))+hello), "protocol version 301",
		},
		"another server": {"SSH-2.0-OpenSSH_9.2\r\n", "does not answer with TLS, but with SSH."},
		"HTTP": {"HTTP/1.1 400 No\r\n\r\n", "with plain HTTP. Check the port in auth_url, and that " +
			"auth_url starts with http if the cloud does not serve"},
		"nothing": {"", "the server closes the connection without an answer. Check port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			s.wantMessage(answering(t, test.answer), test.want)
		})
	}
}

func TestAnswersOfAnotherKindAreNamed(t *testing.T) {
	t.Parallel()
	const html = "Content-Type: text/html; charset=utf-8\r\nContent-Length: 13\r\n\r\n<html></html>"
	const created, json = "HTTP/1.1 201 Created\r\n", "Content-Type: application/json\r\n"
	for name, test := range map[string]struct{ answer, want string }{
		"no content": {created + "Content-Length: 0\r\n\r\n", "its content is empty (HTTP 201). Check"},
		"JSON that ends too early": {
			created + json + "Content-Length: 20\r\n\r\n{\"token\":{\"project\":{", "its JSON ends too " +
				"early, after 20 bytes (HTTP 201, application/json, 20 bytes announced)",
		},
		"an answer that breaks off": {
			created + json + "Content-Length: 900\r\n\r\n{\"token\"", "before its answer is complete " +
				"(HTTP 201, application/json, 900 bytes announced)",
		},
		"chunks that break off": {
			created + json + "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"tok\r\n", "before its answer is " +
				"complete (HTTP 201, application/json, in chunks)",
		},
		"a mistake in JSON": {
			created + "Content-Length: 17\r\n\r\n{\"token\": {a: 1}}", "its JSON has a mistake at byte 12",
		},
		"no token": {
			created + "Content-Length: 30\r\n\r\n{\"token\":{\"project\":{\"id\":1}}}",
			"it contains no token (header X-Subject-Token). Check",
		},
		"a web page": {
			created + html, "its content is a web page or XML (HTTP 201, text/html, 13 bytes announced)",
		},
		"another encoding": {
			created + "Content-Encoding: br\r\nContent-Length: 4\r\n\r\n\x1b\x02\x00\xf8",
			"its content is something other than JSON (HTTP 201, br, 4 bytes announced)",
		},
		"a page of a load balancer": {
			"HTTP/1.1 502 Bad Gateway\r\n" + html, "it returned HTTP 502 with a web page or XML. The cloud",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			s.wantMessage(strings.Replace(answering(t, test.answer), "https", "http", 1), test.want)
		})
	}
}

func TestCertificatesOfUnknownAuthoritiesAreNamed(t *testing.T) {
	t.Parallel()
	const replace = "Replace the content of key cacert of the credentials Secret by "
	certificate, _ := issue(t, func(*x509.Certificate) error { return nil })
	earlier, sameName := issue(t, func(c *x509.Certificate) error {
		c.Subject.CommonName = "old.example"
		return nil
	})
	block := &pem.Block{Type: "CERTIFICATE", Bytes: earlier.Certificate[0]}
	ofServer := string(pem.EncodeToMemory(block))
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.TLS.Certificates = []tls.Certificate{certificate}
	server.StartTLS()
	t.Cleanup(server.Close)
	for name, test := range map[string]struct{ ca, want string }{
		"none": {"", `"CN=cloud", and no CA is given. Put the cloud's CA into key cacert of`},
		"a namesake": {
			sameName, `"CN=cloud" has the name of a CA that is given, but another key. ` + replace,
		},
		"another one": {"simulator", `"CN=cloud", and the CA that is given is "CN=`},
		"that of a server": {
			ofServer, `"CN=cloud", and what is given is no CA but the certificate of a server, ` +
				`"CN=old.example". ` + replace + "the cloud's CA. If a proxy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{TLS: true})
			if test.ca == "simulator" {
				test.ca = s.ca()
			}
			s.write("ca.crt", test.ca)
			s.wantMessage(server.URL, "signed by an unknown authority: "+test.want)
		})
	}
}

func TestServersWithoutHTTPAreExplained(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ answer, want string }{
		"another server":      {"SSH-2.0-OpenSSH_9.2\r\n", ": the server answers with SSH"},
		"TLS":                 {"\x15\x03\x01\x00\x02\x02\x46", ": the server answers with TLS"},
		"no header":           {"HTTP/1.1 200 OK\r\nno header\r\n\r\n", ""},
		"an unknown encoding": {"HTTP/1.1 201 OK\r\nTransfer-Encoding: x\r\n\r\n", ""},
		"a wrong chunk": {
			"HTTP/1.1 201 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
			": the server answers HTTP 201, in chunks",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			front := strings.Replace(answering(t, test.answer), "https", "http", 1)
			s.wantMessage(front, "its answer is not valid HTTP"+test.want+". Check the port in auth_url")
		})
	}
}

// answering returns the URL of a server that reads a little, answers with a text, and closes.
func answering(t *testing.T, text string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Read(make([]byte, 64<<10))
				_, _ = io.WriteString(conn, text)
				_ = conn.Close()
			}()
		}
	}()
	return "https://" + listener.Addr().String()
}

func TestHostsThatCannotBeReachedAreExplained(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"keystone.invalid": "the host name keystone.invalid cannot be resolved",
		"255.255.255.255":  "there is no route",
	} {
		s := newSimulated(t, simulator.Config{})
		s.wantMessage("https://"+host, want)
	}
}
