package openstack_test

import (
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	loginCall   = "POST /identity/v3/auth/tokens"
	catalogCall = "GET /identity/v3/auth/catalog"
)

func TestLoginAcceptsEveryKindOfEntry(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]simulator.Clouds{
		"password":                       {},
		"application credential by id":   {Auth: simulator.ApplicationCredential},
		"application credential by name": {Auth: simulator.NamedApplicationCredential},
		"other name of the only entry":   {Cloud: "production"},
		"without region":                 {NoRegion: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{})
			s.clouds(options)
			client := s.client()
			s.wantTypes(client, "gold", "silver")
			s.wantCalls(map[string]int{loginCall: 1, typesCall: 1})
			for range 3 {
				s.wantTypes(client, "gold", "silver")
				s.wantCalls(map[string]int{typesCall: 1})
			}
		})
	}
}

func TestChangedFilesCauseNewLogin(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{TLS: true})
	s.clouds(simulator.Clouds{})
	client := s.client()
	s.wantFailure(client, openstack.CloudUnreachable)
	s.write("ca.crt", s.ca())
	s.counters()
	for _, change := range []func(){
		func() {},
		func() { s.clouds(simulator.Clouds{Auth: simulator.ApplicationCredential}) },
		func() { s.write("ca.crt", s.ca()+"\n# another bundle\n") },
		func() { s.clouds(simulator.Clouds{Cloud: "other"}) },
	} {
		change()
		s.wantTypes(client, "gold", "silver")
		s.wantCalls(map[string]int{loginCall: 1, typesCall: 1})
		s.unchanged(client)
	}
	s.write("clouds.yaml", "clouds: [")
	s.wantFailure(client, openstack.InvalidCredentials)
	s.wantCalls(map[string]int{})
	s.clouds(simulator.Clouds{Cloud: "other"})
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{typesCall: 1}) // the session outlives the invalid file
}

// unchanged expects the next request to need no login.
func (s *fixture) unchanged(client *openstack.Client) {
	s.t.Helper()
	s.wantTypes(client, "gold", "silver")
	s.wantCalls(map[string]int{typesCall: 1})
}
