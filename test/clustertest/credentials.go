package clustertest

import (
	"sync/atomic"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Credentials is a credential.Watcher that sends nothing and has no events. It accepts each content
// that is well-formed, unless Refused is set.
type Credentials struct {
	// Read returns the present content. Its error means that the Secret is missing.
	Read    func() (clouds.Content, error)
	Refused error

	accepted atomic.Pointer[credential.Accepted]
}

// Accepted returns the last content that was accepted, and why the present one is not.
func (c *Credentials) Accepted() (*credential.Accepted, error) {
	if c.Refused != nil {
		return c.accepted.Load(), c.Refused
	}
	content, err := c.Read()
	var login *clouds.Login
	if err == nil {
		login, err = content.Login()
	}
	if err != nil {
		err = &openstack.Error{Reason: openstack.InvalidCredentials, Message: err.Error()}
		return c.accepted.Load(), err
	}
	c.accepted.Store(&credential.Accepted{Login: login})
	return c.accepted.Load(), nil
}

// Malformed returns the error of malformed content.
func (c *Credentials) Malformed() error {
	if _, err := c.Accepted(); openstack.ReasonOf(err) == openstack.InvalidCredentials {
		return err
	}
	return nil
}

// Remarks returns those of the accepted login.
func (c *Credentials) Remarks() []string {
	if accepted, _ := c.Accepted(); accepted != nil {
		return accepted.Login.Remarks
	}
	return nil
}

// Generation never changes.
func (*Credentials) Generation() int { return 1 }

// Informer returns an informer without events.
func (*Credentials) Informer() factory.Informer { return &cluster.Signal{} }

// CA is a self-signed certificate.
const CA = `-----BEGIN CERTIFICATE-----
MIIBNDCB56ADAgECAhQ3ezIqX0LKB6HikMgrQU3n5T9LwDAFBgMrZXAwDzENMAsG
A1UEAwwEdGVzdDAgFw0yNjExMjEyMjQ5NTBaGA8yMTI2MTAyODIyNDk1MFowDzEN
MAsGA1UEAwwEdGVzdDAqMAUGAytlcAMhANqlbNQCt7SFh/NgLzM1z526f/NITIqi
0ol0f85B0qYKo1MwUTAdBgNVHQ4EFgQUgSf3aw5fmd/zqhSbTEbdh4NE5AUwHwYD
VR0jBBgwFoAUgSf3aw5fmd/zqhSbTEbdh4NE5AUwDwYDVR0TAQH/BAUwAwEB/zAF
BgMrZXADQQCIPCQukXEizv6X3vcNPcx50Y8jPlPbVw81e3qxlOupFFad/96Kf6Ha
2Iir4GVXI8MOfnTkfcahhQaCUSNa4pIH
-----END CERTIFICATE-----
`
