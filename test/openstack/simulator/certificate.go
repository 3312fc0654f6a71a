package simulator

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/library-go/pkg/crypto"
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

// keyring contains the CA and the server certificates, good and bad.
type keyring struct {
	ca           []byte // PEM
	certificates map[Certificate]*tls.Certificate
}

// newKeyring creates a CA, and certificates of it for the hosts, which are names or IP addresses.
func newKeyring(hosts []string) (*keyring, error) {
	trusted, errTrusted := newCA()
	stranger, errStranger := newCA()
	if err := errors.Join(errTrusted, errStranger); err != nil {
		return nil, err
	}
	ca, err := crypto.EncodeCertificates(trusted.Config.Certs...)
	if err != nil {
		return nil, err
	}
	k := &keyring{ca: ca, certificates: map[Certificate]*tls.Certificate{}}
	year := time.Now().AddDate(1, 0, 0)
	for name, order := range map[Certificate]struct {
		issuer *crypto.CA
		hosts  []string
		until  time.Time
	}{
		good:      {trusted, hosts, year},
		WrongHost: {trusted, []string{"wrong-host.invalid"}, year},
		OtherCA:   {stranger, hosts, year},
		Expired:   {trusted, hosts, time.Now().Add(-time.Hour)},
	} {
		validity := crypto.WithExtensions(func(template *x509.Certificate) error {
			template.NotBefore, template.NotAfter = order.until.AddDate(-2, 0, 0), order.until
			return nil
		})
		issued, err := order.issuer.NewServerCertificate(sets.New(order.hosts...), keys(), validity)
		if err != nil {
			return nil, err
		}
		k.certificates[name] = &tls.Certificate{
			Certificate: [][]byte{issued.Certs[0].Raw}, PrivateKey: issued.Key,
		}
	}
	return k, nil
}

// newCA creates a CA. All CAs have the same name, so that only their signatures differ.
func newCA() (*crypto.CA, error) {
	config, err := crypto.NewSigningCertificate("openstack-simulator CA", keys())
	return &crypto.CA{Config: config, SerialGenerator: &crypto.RandomSerialGenerator{}}, err
}

func keys() crypto.KeyPairGenerator {
	return crypto.ECDSAKeyPairGenerator{Curve: crypto.P256}
}
