//go:build e2e

package promises

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"testing"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// TestDriversUsePrivateCA creates a volume and a share in an OpenStack whose certificates no
// well-known CA has signed.
func TestDriversUsePrivateCA(t *testing.T) {
	x := use(t, kind{tls: true})
	identity, err := url.Parse(x.Cluster.Cloud().Info().AuthURL)
	x.Must(err)
	connection, err := (&tls.Dialer{}).DialContext(t.Context(), "tcp", identity.Host)
	if unknown := (x509.UnknownAuthorityError{}); !errors.As(err, &unknown) {
		t.Fatalf("without the private CA, a connection to %s got error %v", identity, err)
	}
	if connection != nil {
		x.Must(connection.Close())
	}
	x.mustHaveWritten(x.write("ca-volume", pods.Cinder()), "ca-volume")
	x.mustHaveWritten(x.write("ca-share", pods.Manila()), "ca-share")
}
