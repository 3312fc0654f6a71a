package simulator

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Certificate is a kind of server certificate that clients must refuse.
type Certificate string

// The bad certificates.
const (
	// WrongHost is signed by the cloud's CA for another host.
	WrongHost Certificate = "wrong-host"
	// OtherCA is for the right host, signed by an unknown CA with the same name.
	OtherCA Certificate = "other-ca"
	// Expired is valid except for its date.
	Expired Certificate = "expired"
)

const good Certificate = ""

func badCertificates() []Certificate { return []Certificate{WrongHost, OtherCA, Expired} }

// authority is a private CA.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

// keyring contains the CA and the server certificates, good and bad.
type keyring struct {
	ca           []byte // PEM
	certificates map[Certificate]*tls.Certificate
}

// newKeyring creates a CA and the certificates for the hosts, which are names or IP addresses.
func newKeyring(hosts []string) (*keyring, error) {
	trusted, err := newAuthority()
	if err != nil {
		return nil, err
	}
	stranger, err := newAuthority()
	if err != nil {
		return nil, err
	}
	ring := &keyring{
		ca:           pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: trusted.certificate.Raw}),
		certificates: map[Certificate]*tls.Certificate{},
	}
	year := time.Now().AddDate(1, 0, 0)
	for name, order := range map[Certificate]struct {
		issuer *authority
		hosts  []string
		until  time.Time
	}{
		good:      {trusted, hosts, year},
		WrongHost: {trusted, []string{"wrong-host.invalid"}, year},
		OtherCA:   {stranger, hosts, year},
		Expired:   {trusted, hosts, time.Now().Add(-time.Hour)},
	} {
		if ring.certificates[name], err = order.issuer.issue(order.hosts, order.until); err != nil {
			return nil, err
		}
	}
	return ring, nil
}

// newAuthority creates a CA. All CAs have the same name, so that only their signatures differ.
func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the CA key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "openstack-simulator CA"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(10, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	certificate, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing the CA certificate: %w", err)
	}
	return &authority{certificate: certificate, key: key, serial: 1}, nil
}

// issue creates a server certificate.
func (a *authority) issue(hosts []string, until time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a server key: %w", err)
	}
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial),
		Subject:      pkix.Name{CommonName: hosts[0]},
		NotBefore:    until.AddDate(-2, 0, 0),
		NotAfter:     until,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	certificate, err := sign(template, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("signing a server certificate: %w", err)
	}
	return &tls.Certificate{
		Certificate: [][]byte{certificate.Raw}, PrivateKey: key, Leaf: certificate,
	}, nil
}

// sign creates a certificate from a template.
func sign(
	template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey,
) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
