package openstack_test

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Labels of metrics contain the requests.
func TestEachRequestIsReportedWithItsService(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	s.clouds(simulator.Clouds{})
	var got []string
	observe := func(r openstack.Request) {
		assert.Check(t, r.Duration > 0, "the request to %s took %v", r.Service, r.Duration)
		got = append(got, r.Service+" "+r.Code)
	}
	client := s.clientOf(func() (openstack.Access, error) {
		access, err := s.access(nil)
		access.Observe = observe
		return access, err
	})
	send := func(what string, request func() error, fault *simulator.Fault, want ...string) {
		t.Helper()
		got = nil
		if fault != nil {
			s.fault(*fault)
			defer func() { check(t, s.cloud.ClearFaults()) }()
		}
		if err := request(); (err != nil) != (fault != nil) {
			t.Errorf("%s: got error %v", what, err)
		}
		assert.Check(t, is.DeepEqual(want, got), "%s: requests", what)
	}
	types := func() error { _, err := client.ShareTypes(t.Context()); return err }
	volumes := func() error { _, err := client.VolumeZones(t.Context()); return err }
	servers := func() error { _, err := client.ComputeZones(t.Context()); return err }
	send("login and share types", types, nil, "Keystone 201", "Manila 200")
	send("volume zones", volumes, nil, "Cinder 200")
	send("compute zones", servers, nil, "Nova 200")
	failed := simulator.Fault{Mode: simulator.Status, Service: simulator.Volume, Status: 503}
	send("an outage of Cinder", volumes, &failed, "Cinder 503", "Keystone 200")
	unknown := foreign(simulator.Share, simulator.Answer{Status: 599})
	send("an unknown status", types, &unknown, "Manila other", "Keystone 200")
	gone := mode(simulator.Reset)
	send("an outage of everything", servers, &gone, "Nova error", "Keystone error")
}
