package simulator

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shareaccessrules"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/snapshots"
)

// manila logs in and returns a client of Manila with the microversion of manila-csi-plugin.
func manila(ctx context.Context, t *testing.T, cloud *Simulator) *gophercloud.ServiceClient {
	t.Helper()
	return clientOf(ctx, t, cloud, openstack.NewSharedFileSystemV2, "2.37")
}

// shareStatus returns a function that gets the status of a share, "" if it does not exist.
func shareStatus(
	ctx context.Context, client *gophercloud.ServiceClient, id string,
) func() (string, error) {
	return func() (string, error) {
		share, err := shares.Get(ctx, client, id).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return share.Status, nil
	}
}

// newShare creates a share and waits until it is available.
func newShare(
	ctx context.Context, t *testing.T, client *gophercloud.ServiceClient, opts shares.CreateOpts,
) *shares.Share {
	t.Helper()
	opts.ShareProto = "NFS"
	created, err := shares.Create(ctx, client, opts).Extract()
	must(t, err)
	if created.Status != "creating" {
		t.Errorf("a new share has the status %s", created.Status)
	}
	eventually(ctx, t, "available", shareStatus(ctx, client, created.ID))
	share, err := shares.Get(ctx, client, created.ID).Extract()
	must(t, err)
	return share
}

// grant adds an access rule of type ip.
func grant(
	ctx context.Context, client *gophercloud.ServiceClient, share, to, level string,
) (*shares.AccessRight, error) {
	return shares.GrantAccess(ctx, client, share, shares.GrantAccessOpts{
		AccessType: "ip", AccessTo: to, AccessLevel: level,
	}).Extract()
}

func TestShareHasTheFieldsOfTheAPI(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{
		ShareTypes: named("default", "plain"), ComputeZones: []Zone{{Name: "north"}},
	})
	client := manila(ctx, t, cloud)
	pages, err := sharetypes.List(client, nil).AllPages(ctx)
	must(t, err)
	types, err := sharetypes.ExtractShareTypes(pages)
	must(t, err)
	got := newShare(ctx, t, client, shares.CreateOpts{
		Size: 2, Name: "data", Description: "text", ShareType: "plain",
		Metadata: map[string]string{"key": "value"},
	})
	want := &shares.Share{
		Status: "available", Size: 2, Name: "data", Description: "text", AvailabilityZone: "north",
		ShareType: types[1].ID, ShareTypeName: "plain", VolumeType: "plain", ShareProto: "NFS",
		Metadata: map[string]string{"key": "value"}, ProjectID: cloud.Credentials().ProjectID,
		SnapshotSupport: true, CreateShareFromSnapshotSupport: true,
	}
	ignored := cmpopts.IgnoreFields(shares.Share{}, "ID", "CreatedAt", "Links")
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("share (-want +got):\n%s", diff)
	}
	locations, err := shares.ListExportLocations(ctx, client, got.ID).Extract()
	must(t, err)
	if len(locations) != 1 || locations[0].Path != "127.0.0.1:/shares/"+got.ID {
		t.Errorf("export locations: %+v", locations)
	}
	byDefault := newShare(ctx, t, client, shares.CreateOpts{Size: 1})
	if byDefault.ShareTypeName != "default" {
		t.Errorf("without a share type: %+v", byDefault)
	}
	wantFields := map[string][]string{
		"2.0": {
			"availability_zone", "created_at", "description", "export_location", "export_locations", "id",
			"is_public", "links", "metadata", "name", "project_id", "share_network_id", "share_proto",
			"share_type", "size", "snapshot_id", "status", "volume_type",
		},
		"2.37": {
			"access_rules_status", "availability_zone", "create_share_from_snapshot_support",
			"created_at", "description", "has_replicas", "id", "is_public", "links", "metadata",
			"mount_snapshot_support", "name", "project_id", "replication_type",
			"revert_to_snapshot_support", "share_group_id", "share_network_id", "share_proto",
			"share_type", "share_type_name", "size", "snapshot_id", "snapshot_support",
			"source_share_group_snapshot_member_id", "status", "task_state", "user_id", "volume_type",
		},
	}
	for version, want := range wantFields {
		client.Microversion = version
		_, body := raw(ctx, t, client, "shares/"+got.ID)
		if diff := cmp.Diff(want, fields(t, body, "share")); diff != "" {
			t.Errorf("fields of version %s (-want +got):\n%s", version, diff)
		}
	}
}

func TestAccessRulesDecideWhoMayMountAShare(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("default"), State: t.TempDir()})
	client := manila(ctx, t, cloud)
	share := newShare(ctx, t, client, shares.CreateOpts{Size: 1})
	access := func(client string) Access {
		level, _ := cloud.ShareAccess(share.ID, netip.MustParseAddr(client))
		return level
	}
	if level := access("10.0.0.5"); level != "" {
		t.Errorf("without a rule the access is %q", level)
	}
	stall := set(t, cloud, Fault{Mode: Stall, Service: Share, Times: 1})
	readers, err := grant(ctx, client, share.ID, "10.0.0.0/24", "ro")
	must(t, err)
	if readers.State != "queued_to_apply" || readers.ShareID != share.ID {
		t.Errorf("a new rule: %+v", readers)
	}
	if level := access("10.0.0.5"); level != "" {
		t.Errorf("before a rule is applied the access is %q", level)
	}
	must(t, cloud.ClearFaults(stall.ID))
	_, err = grant(ctx, client, share.ID, "10.0.0.7", "rw")
	must(t, err)
	for address, want := range map[string]Access{
		"10.0.0.5": "ro", "10.0.0.7": "rw", "10.0.1.5": "", "::ffff:10.0.0.7": "rw",
	} {
		eventually(ctx, t, want, func() (Access, error) { return access(address), nil })
	}
	rules, err := shares.ListAccessRights(ctx, client, share.ID).Extract()
	must(t, err)
	want := []shares.AccessRight{
		{AccessType: "ip", AccessTo: "10.0.0.0/24", AccessLevel: "ro", State: "active"},
		{AccessType: "ip", AccessTo: "10.0.0.7", AccessLevel: "rw", State: "active"},
	}
	if diff := cmp.Diff(want, rules, cmpopts.IgnoreFields(shares.AccessRight{}, "ID")); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	must(t, shares.RevokeAccess(ctx, client, share.ID,
		shares.RevokeAccessOpts{AccessID: readers.ID}).ExtractErr())
	eventually(ctx, t, "", func() (Access, error) { return access("10.0.0.5"), nil })

	client.Microversion = "2.45"
	eventually(ctx, t, "10.0.0.7", func() (string, error) {
		rules, err := shareaccessrules.List(ctx, client, share.ID).Extract()
		var admitted []string
		for _, rule := range rules {
			admitted = append(admitted, rule.AccessTo)
		}
		return strings.Join(admitted, " "), err
	})
}

func TestExportsAdmitClientsByTheAddressOfTheConnection(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("default")})
	client := manila(ctx, t, cloud)
	share := newShare(ctx, t, client, shares.CreateOpts{Size: 1})
	server := httptest.NewServer(cloud.Exports())
	t.Cleanup(server.Close)
	type answer struct {
		status int
		body   string
	}
	ask := func(id string) func() (answer, error) {
		return func() (answer, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/shares/"+id, nil)
			if err != nil {
				return answer{}, err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return answer{}, err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			return answer{response.StatusCode, strings.TrimSpace(string(body))}, err
		}
	}
	eventually(ctx, t, answer{404, "the share does not exist"}, ask("x"))
	eventually(ctx, t, answer{403, "no access rule admits 127.0.0.1"}, ask(share.ID))
	_, err := grant(ctx, client, share.ID, "127.0.0.0/8", "ro")
	must(t, err)
	eventually(ctx, t, answer{200, `{"access":"ro"}`}, ask(share.ID))
	_, err = grant(ctx, client, share.ID, "127.0.0.1", "rw")
	must(t, err)
	eventually(ctx, t, answer{200, `{"access":"rw"}`}, ask(share.ID))
}

func TestShareFromSnapshotContainsItsData(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cloud, ctx := run(t, Config{ShareTypes: named("default"), State: folder})
	client := manila(ctx, t, cloud)
	source := newShare(ctx, t, client, shares.CreateOpts{Size: 1})
	file := func(share string) string { return filepath.Join(folder, "shares", share, "sub", "file") }
	must(t, os.Mkdir(filepath.Dir(file(source.ID)), 0o700))
	must(t, os.WriteFile(file(source.ID), []byte("data"), 0o640))
	created, err := snapshots.Create(ctx, client, snapshots.CreateOpts{
		ShareID: source.ID, Name: "s", Description: "text",
	}).Extract()
	must(t, err)
	eventually(ctx, t, "available", func() (string, error) {
		snapshot, err := snapshots.Get(ctx, client, created.ID).Extract()
		if err != nil {
			return "", err
		}
		return snapshot.Status, nil
	})
	must(t, os.WriteFile(file(source.ID), []byte("later"), 0o640))
	pages, err := snapshots.ListDetail(client, snapshots.ListOpts{Name: "s"}).AllPages(ctx)
	must(t, err)
	list, err := snapshots.ExtractSnapshots(pages)
	must(t, err)
	want := []snapshots.Snapshot{{
		ID: created.ID, Name: "s", Description: "text", ShareID: source.ID, ShareProto: "NFS",
		ShareSize: 1, Size: 1, Status: "available", ProjectID: cloud.Credentials().ProjectID,
	}}
	ignored := cmpopts.IgnoreFields(snapshots.Snapshot{}, "CreatedAt", "Links")
	if diff := cmp.Diff(want, list, ignored); diff != "" {
		t.Errorf("snapshots (-want +got):\n%s", diff)
	}
	restored := newShare(ctx, t, client, shares.CreateOpts{Size: 2, SnapshotID: created.ID})
	content, err := os.ReadFile(file(restored.ID))
	must(t, err)
	info, err := os.Stat(file(restored.ID))
	must(t, err)
	if string(content) != "data" || info.Mode().Perm() != 0o640 {
		t.Errorf("the restored file contains %q and has the mode %s", content, info.Mode())
	}
	err = shares.Delete(ctx, client, source.ID).ExtractErr()
	refused(t, err, 403, "Invalid share: Share still has 1 dependent snapshots..")
	must(t, snapshots.Delete(ctx, client, created.ID).ExtractErr())
	eventually(ctx, t, true, func() (bool, error) {
		_, err := snapshots.Get(ctx, client, created.ID).Extract()
		return gophercloud.ResponseCodeIs(err, http.StatusNotFound), nil
	})
	must(t, shares.Delete(ctx, client, source.ID).ExtractErr())
	eventually(ctx, t, "", shareStatus(ctx, client, source.ID))
	eventually(ctx, t, true, func() (bool, error) {
		_, err := os.Stat(filepath.Join(folder, "shares", source.ID))
		return os.IsNotExist(err), nil
	})
}

func TestShareIsExtended(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("default")})
	client := manila(ctx, t, cloud)
	share := newShare(ctx, t, client, shares.CreateOpts{Size: 1})
	must(t, shares.Extend(ctx, client, share.ID, shares.ExtendOpts{NewSize: 2}).ExtractErr())
	eventually(ctx, t, 2, func() (int, error) {
		share, err := shares.Get(ctx, client, share.ID).Extract()
		if err != nil {
			return 0, err
		}
		return share.Size, nil
	})
	err := shares.Extend(ctx, client, share.ID, shares.ExtendOpts{NewSize: 2}).ExtractErr()
	refused(t, err, 400, "Invalid input received: New size for extend must be greater than current "+
		"size. (current: 2, extended: 2)..")
}

func TestShareRequestsAreRefusedAsManilaDoes(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("default")})
	client := manila(ctx, t, cloud)
	share := newShare(ctx, t, client, shares.CreateOpts{Size: 2})
	for name, test := range map[string]struct {
		opts    shares.CreateOpts
		status  int
		message string
	}{
		"unknown type": {
			shares.CreateOpts{Size: 1, ShareProto: "NFS", ShareType: "x"}, 404, "Share type not found.",
		},
		"unknown zone": {
			shares.CreateOpts{Size: 1, ShareProto: "NFS", AvailabilityZone: "x"},
			404,
			"Availability zone x could not be found.",
		},
		"unknown snapshot": {
			shares.CreateOpts{Size: 1, ShareProto: "NFS", SnapshotID: "x"},
			404,
			"Snapshot x could not be found.",
		},
		"unknown network": {
			shares.CreateOpts{Size: 1, ShareProto: "NFS", ShareNetworkID: "x"},
			404,
			"Share network x could not be found.",
		},
		"unknown protocol": {
			shares.CreateOpts{Size: 1, ShareProto: "FTP"},
			400,
			"Invalid input received: Invalid share protocol provided: FTP. It is either disabled or " +
				"unsupported. Available protocols: ['NFS', 'CIFS'].",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := shares.Create(ctx, client, test.opts).Extract()
			refused(t, err, test.status, test.message)
		})
	}
	for size, message := range map[any]string{
		"large": "Invalid input received: Share size 'large' must be an integer and greater than 0.",
		-1:      "Invalid input received: Share size '-1' must be an integer and greater than 0.",
	} {
		body := map[string]any{"share": map[string]any{"share_proto": "NFS", "size": size}}
		_, err := shares.Create(ctx, client, rawShare(body)).Extract()
		refused(t, err, 400, message)
	}
	_, err := shares.Create(ctx, client, rawShare(map[string]any{"other": nil})).Extract()
	refused(t, err, 422, "Unable to process the contained instructions")
	for to, message := range map[string]string{
		"10.0.0.1/24": "10.0.0.1/24 has host bits set", "fd00::/64": "Expected 4 octets in 'fd00::/64'",
	} {
		_, err = grant(ctx, client, share.ID, to, "rw")
		refused(t, err, 400, message)
	}
	_, err = grant(ctx, client, share.ID, "10.0.0.1", "rx")
	refused(t, err, 400, "Invalid access rule: Invalid share access level: rx.")
	_, err = grant(ctx, client, share.ID, "10.0.0.1", "rw")
	must(t, err)
	_, err = grant(ctx, client, share.ID, "10.0.0.1", "ro")
	refused(t, err, 400, "Share access ip:10.0.0.1 exists.")
}

// rawShare is the body of a request for a share.
type rawShare map[string]any

func (r rawShare) ToShareCreateMap() (map[string]any, error) { return r, nil }

func TestShareListsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("default")})
	client := manila(ctx, t, cloud)
	for _, name := range []string{"a", "b", "c"} {
		newShare(ctx, t, client, shares.CreateOpts{Size: 1, Name: name})
	}
	for name, test := range map[string]struct {
		opts shares.ListOpts
		want []string
	}{
		"all":   {shares.ListOpts{}, []string{"c", "b", "a"}},
		"pages": {shares.ListOpts{Limit: 2}, []string{"c", "b", "a"}},
		"name":  {shares.ListOpts{Name: "b"}, []string{"b"}},
		"none":  {shares.ListOpts{Status: "error"}, nil},
	} {
		pages, err := shares.ListDetail(client, test.opts).AllPages(ctx)
		must(t, err)
		found, err := shares.ExtractShares(pages)
		must(t, err)
		var names []string
		for _, share := range found {
			names = append(names, share.Name)
		}
		if diff := cmp.Diff(test.want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestShareTypesHaveExtraSpecs(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("default")})
	client := manila(ctx, t, cloud)
	pages, err := sharetypes.List(client, nil).AllPages(ctx)
	must(t, err)
	types, err := sharetypes.ExtractShareTypes(pages)
	must(t, err)
	want := map[string]any{
		"driver_handles_share_servers": "False", "snapshot_support": "True",
		"create_share_from_snapshot_support": "True", "revert_to_snapshot_support": "False",
		"mount_snapshot_support": "False",
	}
	if diff := cmp.Diff(want, types[0].ExtraSpecs); diff != "" {
		t.Errorf("extra specs (-want +got):\n%s", diff)
	}
}
