package openstack_test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestCredentialExpiryIsRead(t *testing.T) {
	t.Parallel()
	expiry := time.Date(2027, 2, 3, 4, 5, 6, 0, time.UTC)
	for name, test := range map[string]struct {
		auth   simulator.Auth
		expiry time.Time
		faults []simulator.Fault
		want   time.Time
	}{
		"by ID":      {auth: simulator.ApplicationCredential, expiry: expiry, want: expiry},
		"by name":    {auth: simulator.NamedApplicationCredential, expiry: expiry, want: expiry},
		"never":      {auth: simulator.ApplicationCredential},
		"a password": {auth: simulator.Password, expiry: expiry},
		"a policy forbids it": {
			auth: simulator.ApplicationCredential, expiry: expiry,
			faults: []simulator.Fault{{
				Mode: simulator.Status, Service: simulator.Identity,
				PathPrefix: "/identity/v3/users/", Status: 403,
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			credentials := simulator.Credentials{ApplicationCredentialExpiry: test.expiry}
			s := newFixture(t, simulator.Config{Credentials: credentials})
			s.clouds(simulator.Clouds{Auth: test.auth})
			client := s.client()
			check(t, client.Check(t.Context()))
			for _, fault := range test.faults {
				s.fault(fault)
			}
			got, err := client.CredentialExpiry(t.Context())
			assert.Check(t, err == nil && got.Equal(test.want),
				"the expiry is %v, %v; want %v", got, err, test.want)
		})
	}
}

func TestCredentialExpiryOfUnreachableCloudIsAnError(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{})
	s.clouds(simulator.Clouds{Auth: simulator.ApplicationCredential})
	client := s.client()
	check(t, client.Check(t.Context()))
	s.fault(simulator.Fault{Mode: simulator.Status, Service: simulator.Identity, Status: 503})
	got, err := client.CredentialExpiry(t.Context())
	assert.Check(t, err != nil && openstack.ReasonOf(err) == openstack.CloudUnreachable,
		"the expiry is %v, %v", got, err)
}
