package openstack_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

type listRequest struct {
	service simulator.Service
	entry   string // in the catalog
	words   string // of the service in messages
	count   func(*openstack.Client, context.Context) (int, error)
}

// counted returns a function that counts what another one lists.
func counted[T any](
	list func(*openstack.Client, context.Context) ([]T, error),
) func(*openstack.Client, context.Context) (int, error) {
	return func(client *openstack.Client, ctx context.Context) (int, error) {
		found, err := list(client, ctx)
		return len(found), err
	}
}

func volumesOf(ctx context.Context, c *openstack.Client) (all []openstack.Volume, err error) {
	err = c.Volumes(ctx, func(v openstack.Volume) { all = append(all, v) })
	return all, err
}

func shareTypes() listRequest {
	return listRequest{
		simulator.Share, "sharev2", "shared file system service (Manila)",
		counted((*openstack.Client).ShareTypes),
	}
}

func listRequests() map[string]listRequest {
	const cinder = "block storage service (Cinder)"
	return map[string]listRequest{
		"share_types":  shareTypes(),
		"volume_types": {simulator.Volume, "volumev3", cinder, counted((*openstack.Client).VolumeTypes)},
		"servers": {
			simulator.Compute, "compute", "compute service (Nova)", counted((*openstack.Client).Servers),
		},
		"volumes": {simulator.Volume, "volumev3", cinder, func(
			c *openstack.Client, ctx context.Context,
		) (int, error) {
			found, err := volumesOf(ctx, c)
			return len(found), err
		}},
		"availabilityZoneInfo": {
			simulator.Volume, "volumev3", cinder, counted((*openstack.Client).VolumeZones),
		},
		"availability_zones": {
			simulator.Share, "sharev2", "shared file system service (Manila)",
			counted((*openstack.Client).ShareZones),
		},
		"compute zones": {
			simulator.Compute, "compute", "compute service (Nova)",
			counted((*openstack.Client).ComputeZones),
		},
	}
}

func TestFailedListNamesItsService(t *testing.T) {
	t.Parallel()
	for name, request := range listRequests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			client := s.connected()
			failures := []failure{
				{status(503), openstack.CloudUnreachable, "HTTP 503"},
				{status(401), openstack.AuthenticationFailed, "refused the token (HTTP 401)"},
			}
			list := strings.Replace(name, "compute zones", "availabilityZoneInfo", 1)
			for _, body := range []string{
				`{"versions":[]}`, `[]`, `{"` + list + `":null}`, `{"` + list + `":"secret-x"}`,
			} {
				other := foreign(request.service, simulator.Answer{Body: body})
				failures = append(failures, failure{other, openstack.CloudUnreachable, notAnAPI})
			}
			for _, want := range failures {
				want.fault.Service = request.service
				s.fault(want.fault)
				wantFragment(t, s.attempt(client, request, want), request.words)
				check(t, s.cloud.ClearFaults())
			}
			s.cloud.RemoveFromCatalog(request.entry)
			client = s.client()
			missing := failure{reason: openstack.NotOffered, fragment: "its catalog has no "}
			wantFragment(t, s.attempt(client, request, missing), request.words)
			s.cloud.RestoreToCatalog(request.entry)
			_, err := request.count(client, t.Context())
			check(t, err)
		})
	}
}

// Links to a next page never end if the cloud answers each with the same page.
func TestAnswersAreListsOfALimitedLength(t *testing.T) {
	t.Parallel()
	const tooMany = "lists more than "
	many := func(count int, item string) string {
		return strings.TrimSuffix(strings.Repeat(item+",", count), ",")
	}
	// A list of such types exceeds the limits of other responses, as one of Manila's types may do.
	large := fmt.Sprintf(`{"name":%q,"tags":[%s]}`, strings.Repeat("n", 255), many(20, `"a tag"`))
	for _, test := range []struct {
		list, items, more string
		want              int
		fault             string
	}{
		{list: "share_types", items: many(10_000, large), want: 10_000},
		{list: "share_types", items: many(10_001, `{"name":"a"}`), fault: tooMany + "10000 items"},
		{list: "share_types", items: `{"name":"gold"},{"name":["secret-x"]}`, fault: notAnAPI},
		{list: "share_types", items: `{"name":"` + strings.Repeat("n", 256) + `"}`, fault: notAnAPI},
		{
			list: "share_types", items: `{"name":"gold"}`, want: 1,
			more: `,"share_types_links":[{"rel":"next","href":"https://k.example/types?marker=1"}]`,
		},
		{list: "volume_types"},
		{list: "volume_types", items: many(1000, `{"name":"a"}`), want: 1000},
		{
			list: "volume_types", items: many(900, `{"name":"a","id":"b"}`),
			more: `,"volume_type_links":[{"rel":"next"}]`, fault: tooMany + "10000 items",
		},
		{list: "volume_types", items: `{"id":"1"}`, fault: notAnAPI},
		{list: "volume_types", items: `"gold"`, fault: notAnAPI},
		{list: "volumes", items: `{"id":"1"},{"id":"2"}`, want: 2},
		{list: "servers", items: `{"id":"1"},{"id":"2"}`, want: 2},
		{list: "servers", items: `{"name":"a"}`, fault: notAnAPI},
		{
			list: "servers", items: many(900, `{"id":"b"}`),
			more: `,"servers_links":[{"rel":"next"}]`, fault: tooMany + "10000 items",
		},
		{list: "availabilityZoneInfo"},
		// Callers choose among duplicates.
		{list: "availabilityZoneInfo", items: many(2, `{"zoneName":"a"}`), want: 2},
		{list: "availabilityZoneInfo", items: `{"zoneState":{"available":true}}`, fault: notAnAPI},
		{
			list:  "availabilityZoneInfo",
			items: `{"zoneName":"a","zoneState":{"available":"secret-x"}}`, fault: notAnAPI,
		},
		{
			list: "availabilityZoneInfo", items: many(1001, `{"zoneName":"a"}`),
			fault: tooMany + "1000 items",
		},
	} {
		t.Run(test.list+" "+test.fault, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{})
			client, request := s.connected(), listRequests()[test.list]
			s.fault(foreign(request.service, simulator.Answer{
				Body: `{"` + test.list + `":[` + test.items + `]` + test.more + `}`,
			}))
			n, err := request.count(client, t.Context())
			if test.fault != "" {
				wantFragment(t, s.failure(0, err, openstack.CloudUnreachable), test.fault)
				return
			}
			assert.Check(t, err == nil && n == test.want, "got %d, %v; want %d", n, err, test.want)
		})
	}
}

// Callers compare the order of both services.
func TestZonesAreThoseOfTheServiceInTheRegion(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{Regions: []string{"north", "south"}})
	for _, region := range []string{"north", "south"} {
		s.clouds(simulator.Clouds{Region: region})
		client := s.client()
		for service, list := range map[simulator.Service]func(*openstack.Client, context.Context) (
			[]openstack.Zone, error,
		){
			simulator.Compute: (*openstack.Client).ComputeZones,
			simulator.Volume:  (*openstack.Client).VolumeZones,
			simulator.Share:   (*openstack.Client).ShareZones,
		} {
			check(t, s.cloud.SetZones(service, simulator.Zone{Name: "a"},
				simulator.Zone{Name: " Zürich/1 \"x\"", Unavailable: true}))
			found, err := list(client, t.Context())
			check(t, err)
			want := []openstack.Zone{{Name: "a", Available: true}}
			if service != simulator.Share { // Manila lists only zones with a service that is enabled
				want = append(want, openstack.Zone{Name: " Zürich/1 \"x\""})
			}
			assert.Check(t, is.DeepEqual(want, found), "zones of %s", service)
		}
		prefix := map[string]string{"south": "/south"}[region]
		s.wantCalls(map[string]int{
			loginCall: 1, "GET " + prefix + "/compute/v2.1/os-availability-zone": 1,
			"GET " + prefix + "/volume/v3/os-availability-zone": 1,
			"GET " + prefix + "/share/v2/availability-zones":    1,
		})
	}
}

func TestTypesAndVolumesAreThoseOfTheServices(t *testing.T) {
	t.Parallel()
	s := newFixture(t, simulator.Config{ShareTypes: []simulator.ShareType{}})
	client := s.client()
	s.wantTypes(client)
	check(t, s.cloud.AddShareType(simulator.ShareType{Name: "late"}))
	s.wantTypes(client, "late")
	check(t, s.cloud.RemoveShareType("late"))
	s.wantTypes(client)
	types, err := client.VolumeTypes(t.Context())
	check(t, err)
	assert.Check(t, is.DeepEqual([]string{"__DEFAULT__"}, namesOf(types)), "volume types")
	volumes, err := volumesOf(t.Context(), client)
	assert.Check(t, err == nil && len(volumes) == 0, "got %v, %v", volumes, err)
}

func TestVolumesHaveMetadata(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.connected()
	s.replyOnce(simulator.Volume,
		`{"volumes":[{"id":"1","status":"available","metadata":{"a":"b"}}],"volumes_links":[]}`)
	found, err := volumesOf(t.Context(), client)
	check(t, err)
	assert.Check(t, is.DeepEqual([]openstack.Volume{{
		ID: "1", Status: "available", Metadata: map[string]string{"a": "b"},
	}}, found))
}

// Manila stores what people wrote, and reads it with the function for switches of OpenStack.
func TestShareServersAreReadAsManilaReadsThem(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.connected()
	for text, want := range map[string]bool{
		`"True"`: true, `"true"`: true, `"yes"`: true, `"Y"`: true, `"ON"`: true, `"t"`: true,
		`"1"`: true, `" yes "`: true, "true": true, "1": true, `"<is> True"`: true, `"<is>true"`: true,
		`"<is> False"`: false, `"False"`: false, `"no"`: false,
		`"off"`: false,
		`"0"`:   false, `"maybe"`: false, `""`: false, "null": false, "0": false, "false": false,
	} {
		s.replyOnce(simulator.Share, `{"share_types":[{"name":"a","extra_specs":`+
			`{"driver_handles_share_servers":`+text+`}}]}`)
		found, err := client.ShareTypes(t.Context())
		check(t, err)
		assert.Check(t, is.Equal(found[0].NeedsNetwork, want), text)
	}
}

// The texts are those that the scheduler of Manila compares with what a back end serves.
func TestProtocolOfShareTypes(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.connected()
	for spec, want := range map[string]string{
		"NFS": "", "<in> NFS": "", "NFS_CIFS": "", "CIFS_NFS": "", "<or> CIFS <or> NFS": "",
		"s== NFS": "", "s!= CIFS": "", "<in> nfs": "", "custom": "", "": "",
		"CEPHFS": "CEPHFS", "<in> CEPHFS": "CEPHFS", "<in>CephFS": "CEPHFS", "cifs": "CIFS",
		" CIFS": "CIFS", "<or> CIFS <or> HDFS": "CIFS", "s== CIFS": "CIFS",
		"CEPHFS" + strings.Repeat("x", 5000): "CEPHFS", // it becomes part of a condition
	} {
		for _, key := range []string{"storage_protocol", "capabilities:storage_protocol"} {
			s.replyOnce(simulator.Share,
				fmt.Sprintf(`{"share_types":[{"name":"a","extra_specs":{%q:%q}}]}`, key, spec))
			found, err := client.ShareTypes(t.Context())
			check(t, err)
			assert.Check(t, is.Equal(found[0].OtherProtocol, want), "%s %q", key, spec)
		}
	}
}
