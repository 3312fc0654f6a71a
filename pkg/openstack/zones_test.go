package openstack_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// zoneRequest is one of the requests for zones.
type zoneRequest struct {
	service simulator.Service
	entry   string // in the catalog
	path    string
	words   string // of the service in messages
	ask     func(*openstack.Client, context.Context) ([]openstack.Zone, error)
}

func zoneRequests() map[string]zoneRequest {
	return map[string]zoneRequest{
		"compute": {
			simulator.Compute, "compute", "/compute/v2.1/os-availability-zone",
			"compute service (Nova)", (*openstack.Client).ComputeZones,
		},
		"volume": {
			simulator.Volume, "volumev3", "/volume/v3/os-availability-zone",
			"block storage service (Cinder)", (*openstack.Client).VolumeZones,
		},
	}
}

// eachZoneRequest runs a test for both services.
func eachZoneRequest(t *testing.T, test func(t *testing.T, q zoneRequest)) {
	t.Helper()
	for name, q := range zoneRequests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, q)
		})
	}
}

func (s *fixture) wantZones(client *openstack.Client, q zoneRequest, want []openstack.Zone) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	got, err := q.ask(client, ctx)
	check(s.t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Fatalf("zones (-want +got):\n%s", diff)
	}
}

// wantZonesFailure sends several requests and expects the same error each time.
func (s *fixture) wantZonesFailure(client *openstack.Client, q zoneRequest, want failure) {
	s.t.Helper()
	text := stable(s.t, 3, func() string {
		return s.attempt(want, func(ctx context.Context) (int, error) {
			zones, err := q.ask(client, ctx)
			return len(zones), err
		})
	})
	wantFragment(s.t, text, q.words)
}

func TestZonesAreListedInOrder(t *testing.T) {
	t.Parallel()
	many, manyZones := make([]simulator.Zone, 1000), make([]openstack.Zone, 1000)
	for i := range many {
		name := fmt.Sprintf("zone-%04d", i)
		many[i], manyZones[i] = simulator.Zone{
			Name:        name,
			Unavailable: i%7 == 0,
		}, openstack.Zone{Name: name, Available: i%7 != 0}
	}
	for name, test := range map[string]struct {
		zones []simulator.Zone
		want  []openstack.Zone
		start func(*testing.T, simulator.Config) *fixture
	}{
		"one": {
			[]simulator.Zone{{Name: "nova"}},
			[]openstack.Zone{{Name: "nova", Available: true}},
			newFixture,
		},
		"the last is not available": {
			[]simulator.Zone{{Name: "a"}, {Name: "b", Unavailable: true}},
			[]openstack.Zone{{Name: "a", Available: true}, {Name: "b"}},
			newFixture,
		},
		"strange names": {
			[]simulator.Zone{{Name: " Zürich/1 \"x\""}},
			[]openstack.Zone{{Name: " Zürich/1 \"x\"", Available: true}},
			newFixture,
		},
		"none": {nil, []openstack.Zone{}, newFixture},
		// The services have an order of their own, and list a zone once.
		"in the order told": {
			[]simulator.Zone{{Name: "b"}, {Name: "a"}},
			[]openstack.Zone{{Name: "b", Available: true}, {Name: "a", Available: true}},
			newSimulated,
		},
		"the first is not available": {
			[]simulator.Zone{{Name: "a", Unavailable: true}, {Name: "b"}},
			[]openstack.Zone{{Name: "a"}, {Name: "b", Available: true}},
			newSimulated,
		},
		"listed twice": {
			[]simulator.Zone{{Name: "a"}, {Name: "a", Unavailable: true}, {Name: "a"}},
			[]openstack.Zone{{Name: "a", Available: true}, {Name: "a"}, {Name: "a", Available: true}},
			newSimulated,
		},
		"very many": {many, manyZones, newSimulated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachZoneRequest(t, func(t *testing.T, q zoneRequest) {
				s := test.start(t, simulator.Config{})
				check(t, s.cloud.SetZones(q.service, test.zones...))
				s.clouds(simulator.Clouds{})
				client := s.client()
				s.wantZones(client, q, test.want)
				s.wantCalls(map[string]int{loginCall: 1, "GET " + q.path: 1})
				s.wantZones(client, q, test.want)
				s.wantCalls(map[string]int{"GET " + q.path: 1})
			})
		})
	}
}

func TestZonesAreReadFromTheRegion(t *testing.T) {
	t.Parallel()
	eachZoneRequest(t, func(t *testing.T, q zoneRequest) {
		for region, path := range map[string]string{"north": q.path, "south": "/south" + q.path} {
			s := newFixture(t, simulator.Config{Regions: []string{"north", "south"}})
			s.clouds(simulator.Clouds{Region: region})
			s.wantZones(s.client(), q, []openstack.Zone{{Name: "nova", Available: true}})
			s.wantCalls(map[string]int{loginCall: 1, "GET " + path: 1})
		}
	})
}

func TestBothZoneRequestsShareOneLogin(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{
		ComputeZones: []simulator.Zone{{Name: "c"}}, VolumeZones: []simulator.Zone{{Name: "v"}},
	})
	client := s.connected()
	calls := map[string]int{}
	for name, q := range zoneRequests() {
		s.wantZones(client, q, []openstack.Zone{{Name: name[:1], Available: true}})
		calls["GET "+q.path] = 1
	}
	s.wantCalls(calls)
}

func TestZoneRequestRenewsTheLogin(t *testing.T) {
	t.Parallel()
	eachZoneRequest(t, func(t *testing.T, q zoneRequest) {
		s := newFixture(t, simulator.Config{})
		client := s.connected()
		s.cloud.RevokeTokens()
		s.wantZones(client, q, []openstack.Zone{{Name: "nova", Available: true}})
		s.wantCalls(map[string]int{loginCall: 1, "GET " + q.path: 2})
	})
}

func TestFailedZoneRequestsAreClassified(t *testing.T) {
	t.Parallel()
	tests := faultyService()
	tests["401"] = failure{
		status(401), openstack.AuthenticationFailed, "refused the token (HTTP 401)",
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachZoneRequest(t, func(t *testing.T, q zoneRequest) {
				s := newFixture(t, simulator.Config{SeparatePorts: true})
				client := s.connected()
				broken := test
				broken.fault.Service = q.service
				s.fault(broken.fault)
				s.wantZonesFailure(client, q, broken)
				check(t, s.cloud.ClearFaults())
				s.wantZones(client, q, []openstack.Zone{{Name: "nova", Available: true}})
			})
		})
	}
}

// The service is added to the catalog later.
func TestMissingZoneServiceIsNotOffered(t *testing.T) {
	t.Parallel()
	eachZoneRequest(t, func(t *testing.T, q zoneRequest) {
		s := newFixture(t, simulator.Config{})
		s.cloud.RemoveFromCatalog(q.entry)
		s.clouds(simulator.Clouds{})
		client := s.client()
		s.wantZonesFailure(client, q, failure{
			reason:   openstack.NotOffered,
			fragment: "its catalog has no ",
		})
		s.cloud.RestoreToCatalog(q.entry)
		s.wantZones(client, q, []openstack.Zone{{Name: "nova", Available: true}})
	})
}

func TestZonesRejectResponsesThatAreNotFromTheService(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty object": `{}`, "versions": `{"versions":[]}`, "list": `[]`, "number": `7`, "null": `null`,
		"text":                        `"secret-x"`,
		"null zones":                  `{"availabilityZoneInfo":null}`,
		"zones of another shape":      `{"availabilityZoneInfo":"secret-x"}`,
		"zone without name":           zonesBody(`{"zoneState":{"available":true}}`),
		"zone with another name":      zonesBody(`{"zoneName":"a"},{"zoneName":["secret-x"]}`),
		"zone with another condition": zonesBody(`{"zoneName":"a","zoneState":{"available":"secret-x"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachZoneRequest(t, func(t *testing.T, q zoneRequest) {
				s := newSimulated(t, simulator.Config{})
				s.front = strangeService(t, q.entry, body)
				s.clouds(simulator.Clouds{NoRegion: true})
				s.wantZonesFailure(s.client(), q, failure{
					reason:   openstack.CloudUnreachable,
					fragment: "not from an OpenStack API",
				})
			})
		})
	}
}

// zonesBody returns a list of these zones.
func zonesBody(zones string) string { return `{"availabilityZoneInfo":[` + zones + `]}` }
