package openstack

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
)

// Access is what requests to a cloud need.
type Access struct {
	*clouds.Login
	// TrustedCAs is the trusted CA bundle of the cluster, in PEM. As in the drivers, its certificates
	// are trusted in addition to the system's roots, and have no effect if the login has a CA. Invalid
	// parts are ignored.
	TrustedCAs []byte
	// Words, if it is not nil, replaces TheSecret, OrBundle and TheProxy in errors.
	Words *strings.Replacer
	// Observe, if it is not nil, is called after each HTTP request, from several goroutines at once.
	Observe func(Request)
	// project and user are the IDs of the token, "" before the login.
	project, user string
}

// Source returns the access to use. A Client calls it before each request, so that changes are
// detected. Its error is returned as it is.
type Source func() (Access, error)

// Fixed returns a Source that always returns the same access.
func Fixed(a Access) Source { return func() (Access, error) { return a, nil } }

// Fingerprint is a hash that changes when something changes that requests depend on.
type Fingerprint [sha256.Size]byte

// Fingerprint returns the fingerprint of the access.
func (a Access) Fingerprint() Fingerprint {
	used := *a.Login
	used.Remarks, used.NoProject, used.CAPath = nil, "", "" // texts with lines of clouds.yaml
	trusted := a.TrustedCAs
	if a.CA != "" || a.Insecure {
		trusted = nil
	}
	text, _ := json.Marshal([]any{used, trusted}) // strings and bytes cannot fail
	return sha256.Sum256(text)
}

// credentials is a hash of what Keystone accepts or refuses. A CA, a region or an interface does
// not change its answer.
func (a Access) credentials() Fingerprint {
	text, _ := json.Marshal(a.AuthInfo)
	return sha256.Sum256(text)
}

// roots returns the certificates to trust; nil means the system roots.
func (a Access) roots() (*x509.CertPool, error) {
	if a.CA != "" {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(a.CA))
		return roots, nil
	}
	if len(a.TrustedCAs) == 0 {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, invalid(fmt.Sprintf("the system roots cannot be read: %v", err))
	}
	roots.AppendCertsFromPEM(a.TrustedCAs)
	return roots, nil
}
