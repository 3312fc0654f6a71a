package simulator

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/backups"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/snapshots"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
	"github.com/gophercloud/gophercloud/v2/pagination"
)

// cinder logs in and returns a client of Cinder.
func cinder(
	ctx context.Context, t *testing.T, cloud *Simulator, version string,
) *gophercloud.ServiceClient {
	t.Helper()
	return clientOf(ctx, t, cloud, openstack.NewBlockStorageV3, version)
}

// volumeStatus returns a function that gets the status of a volume, "" if it does not exist.
func volumeStatus(
	ctx context.Context, client *gophercloud.ServiceClient, id string,
) func() (string, error) {
	return func() (string, error) {
		volume, err := volumes.Get(ctx, client, id).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return volume.Status, nil
	}
}

// newVolume creates a volume and waits until it is available.
func newVolume(
	ctx context.Context, t *testing.T, client *gophercloud.ServiceClient, opts volumes.CreateOpts,
) *volumes.Volume {
	t.Helper()
	created, err := volumes.Create(ctx, client, opts, nil).Extract()
	must(t, err)
	if created.Status != "creating" {
		t.Errorf("a new volume has the status %s", created.Status)
	}
	eventually(ctx, t, "available", volumeStatus(ctx, client, created.ID))
	volume, err := volumes.Get(ctx, client, created.ID).Extract()
	must(t, err)
	return volume
}

// newSnapshot creates a snapshot and waits until it is available.
func newSnapshot(
	ctx context.Context, t *testing.T, client *gophercloud.ServiceClient, opts snapshots.CreateOpts,
) *snapshots.Snapshot {
	t.Helper()
	created, err := snapshots.Create(ctx, client, opts).Extract()
	must(t, err)
	eventually(ctx, t, "available", func() (string, error) {
		snapshot, err := snapshots.Get(ctx, client, created.ID).Extract()
		if err != nil {
			return "", err
		}
		return snapshot.Status, nil
	})
	return created
}

func TestVolumeHasTheFieldsOfTheAPI(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{
		VolumeZones: []Zone{{Name: "north"}, {Name: "south"}},
	})
	client := cinder(ctx, t, cloud, "")
	got := newVolume(ctx, t, client, volumes.CreateOpts{
		Size: 2, Name: "data", Description: "text", AvailabilityZone: "south",
		VolumeType: "__DEFAULT__", Metadata: map[string]string{"key": "value"},
	})
	want := &volumes.Volume{
		Status: "available", Size: 2, Name: "data", Description: "text", AvailabilityZone: "south",
		VolumeType: "__DEFAULT__", Metadata: map[string]string{"key": "value"}, Bootable: "false",
		UserID: cloud.Credentials().UserID, Attachments: []volumes.Attachment{},
		TenantID: cloud.Credentials().ProjectID,
	}
	ignored := cmpopts.IgnoreFields(volumes.Volume{}, "ID", "CreatedAt", "UpdatedAt")
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("volume (-want +got):\n%s", diff)
	}
	if age := time.Since(got.CreatedAt); age < 0 || age > time.Minute {
		t.Errorf("the volume was created %s ago", age)
	}
	byDefault := newVolume(ctx, t, client, volumes.CreateOpts{Size: 1})
	if byDefault.AvailabilityZone != "north" || byDefault.VolumeType != "__DEFAULT__" {
		t.Errorf("without zone and type: %s, %s", byDefault.AvailabilityZone, byDefault.VolumeType)
	}
	base := []string{
		"attachments", "availability_zone", "bootable", "consistencygroup_id", "created_at",
		"description", "encrypted", "id", "links", "metadata", "multiattach", "name",
		"os-vol-tenant-attr:tenant_id", "replication_status", "size", "snapshot_id", "source_volid",
		"status", "updated_at", "user_id", "volume_type",
	}
	later := append(slices.Clone(base), "consumes_quota", "group_id", "service_uuid",
		"shared_targets", "volume_type_id")
	slices.Sort(later)
	for version, want := range map[string][]string{"3.0": base, "3.70": later} {
		client.Microversion = version
		_, body := raw(ctx, t, client, "volumes/"+got.ID)
		if diff := cmp.Diff(want, fields(t, body, "volume")); diff != "" {
			t.Errorf("fields of version %s (-want +got):\n%s", version, diff)
		}
	}
}

func TestVolumeTypesAreListedInPages(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	must(t, cloud.AddVolumeType("fast"))
	if err := cloud.AddVolumeType("fast"); err == nil {
		t.Error("added twice")
	}
	client := cinder(ctx, t, cloud, "")
	names, pages := []string{}, 0
	must(t, volumetypes.List(client, volumetypes.ListOpts{Limit: 1}).EachPage(ctx,
		func(_ context.Context, page pagination.Page) (bool, error) {
			pages++
			types, err := volumetypes.ExtractVolumeTypes(page)
			for _, found := range types {
				names = append(names, found.Name)
				volume := newVolume(ctx, t, client, volumes.CreateOpts{Size: 1, VolumeType: found.ID})
				if volume.VolumeType != found.Name || !found.IsPublic {
					t.Errorf("%+v, volume of type %s", found, volume.VolumeType)
				}
			}
			return true, err
		}))
	slices.Sort(names)
	if diff := cmp.Diff([]string{"__DEFAULT__", "fast"}, names); diff != "" || pages != 2 {
		t.Errorf("%d pages (-want +got):\n%s", pages, diff)
	}
}

func TestVolumeRequestsAreRefusedAsCinderDoes(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{VolumeZones: []Zone{{Name: "a"}, {Name: "b"}}})
	client := cinder(ctx, t, cloud, "3.42")
	volume := newVolume(ctx, t, client, volumes.CreateOpts{Size: 2, AvailabilityZone: "b"})
	snapshot := newSnapshot(ctx, t, client, snapshots.CreateOpts{VolumeID: volume.ID})
	creations := map[string]struct {
		opts    volumes.CreateOpts
		status  int
		message string
	}{
		"no size": {
			volumes.CreateOpts{},
			400,
			"Invalid input received: Volume size '0' must be an integer and greater than 0",
		},
		"unknown zone": {
			volumes.CreateOpts{Size: 1, AvailabilityZone: "c"},
			400,
			"Availability zone 'c' is invalid.",
		},
		"unknown type": {
			volumes.CreateOpts{Size: 1, VolumeType: "fast"},
			404,
			"Volume type with name fast could not be found.",
		},
		"unknown snapshot": {
			volumes.CreateOpts{Size: 1, SnapshotID: "x"}, 404, "Snapshot x could not be found.",
		},
		"unknown volume": {
			volumes.CreateOpts{Size: 1, SourceVolID: "x"}, 404, "Volume x could not be found.",
		},
		"smaller than the snapshot": {
			volumes.CreateOpts{Size: 1, SnapshotID: snapshot.ID},
			400,
			"Invalid input received: Volume size '1'GB cannot be smaller than the snapshot size 2GB. " +
				"They must be >= original snapshot size.",
		},
		"smaller than the volume": {
			volumes.CreateOpts{Size: 1, SourceVolID: volume.ID},
			400,
			"Invalid input received: Volume size '1'GB cannot be smaller than original volume size  " +
				"2GB. They must be >= original volume size.",
		},
		"other zone than the snapshot": {
			volumes.CreateOpts{Size: 2, SnapshotID: snapshot.ID, AvailabilityZone: "a"},
			400,
			"Invalid input received: Volume must be in the same availability zone as the snapshot",
		},
	}
	for name, test := range creations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := volumes.Create(ctx, client, test.opts, nil).Extract()
			refused(t, err, test.status, test.message)
		})
	}
	err := volumes.Delete(ctx, client, volume.ID, nil).ExtractErr()
	refused(t, err, 400, "Invalid volume: Volume status must be available or error or "+
		"error_restoring or error_extending or error_managing and must not be migrating, attached, "+
		"belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots "+
		"after volume transfer.")
	err = volumes.ExtendSize(ctx, client, volume.ID, volumes.ExtendSizeOpts{NewSize: 2}).ExtractErr()
	refused(t, err, 400, "Invalid input received: New size for extend must be greater than current "+
		"size. (current: 2, extended: 2).")
	_, err = volumes.Get(ctx, client, "x").Extract()
	refused(t, err, 404, "Volume x could not be found.")
}

func TestVolumeListsAreFilteredAndPaged(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	client := cinder(ctx, t, cloud, "3.34")
	var newestFirst []string
	for i := range 5 {
		volume := newVolume(ctx, t, client, volumes.CreateOpts{
			Size: 1, Name: fmt.Sprint("v", i),
		})
		newestFirst = append([]string{volume.Name}, newestFirst...)
	}
	list := func(opts volumes.ListOpts) (pages int, names []string) {
		t.Helper()
		err := volumes.List(client, opts).EachPage(ctx,
			func(_ context.Context, page pagination.Page) (bool, error) {
				found, err := volumes.ExtractVolumes(page)
				for _, volume := range found {
					names = append(names, volume.Name)
				}
				pages++
				return true, err
			})
		must(t, err)
		return pages, names
	}
	for name, test := range map[string]struct {
		opts  volumes.ListOpts
		pages int
		want  []string
	}{
		"all":    {volumes.ListOpts{}, 1, newestFirst},
		"pages":  {volumes.ListOpts{Limit: 2}, 3, newestFirst},
		"name":   {volumes.ListOpts{Name: "v3"}, 1, []string{"v3"}},
		"status": {volumes.ListOpts{Status: "error"}, 0, nil},
	} {
		pages, names := list(test.opts)
		if diff := cmp.Diff(test.want, names); diff != "" || pages != test.pages {
			t.Errorf("%s: %d pages, want %d; names (-want +got):\n%s", name, pages, test.pages, diff)
		}
	}
	_, err := volumes.List(client, volumes.ListOpts{Marker: "x"}).AllPages(ctx)
	refused(t, err, 404, "Volume x could not be found.")
	_, err = volumes.List(client, unknownFilter{}).AllPages(ctx)
	refused(t, err, 400, "Invalid filters color are found in query options.")
}

// unknownFilter is a filter that Cinder does not have.
type unknownFilter struct{}

func (unknownFilter) ToVolumeListQuery() (string, error) { return "?color=red", nil }

func TestVolumesAreSparseFilesAndCopiesContainTheirData(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cloud, ctx := run(t, Config{State: folder})
	client := cinder(ctx, t, cloud, "3.51")
	source := newVolume(ctx, t, client, volumes.CreateOpts{Size: 1})
	write(t, filepath.Join(folder, "volumes", source.ID), 5<<20, "data")

	snapshot := newSnapshot(ctx, t, client, snapshots.CreateOpts{VolumeID: source.ID, Name: "s"})
	write(t, filepath.Join(folder, "volumes", source.ID), 5<<20, "later")
	for name, test := range map[string]struct {
		opts volumes.CreateOpts
		want string
	}{
		"snapshot": {volumes.CreateOpts{Size: 2, SnapshotID: snapshot.ID}, "data"},
		"volume":   {volumes.CreateOpts{Size: 2, SourceVolID: source.ID}, "later"},
	} {
		copied := newVolume(ctx, t, client, test.opts)
		path := filepath.Join(folder, "volumes", copied.ID)
		if got := read(t, path, 5<<20, len(test.want)); got != test.want {
			t.Errorf("a volume from a %s contains %q, want %q", name, got, test.want)
		}
		info, err := os.Stat(path)
		must(t, err)
		used := info.Sys().(*syscall.Stat_t).Blocks * 512
		if info.Size() != 2<<30 || used > 1<<20 {
			t.Errorf("a volume from a %s has %d bytes and uses %d", name, info.Size(), used)
		}
	}
	must(t, snapshots.Delete(ctx, client, snapshot.ID).ExtractErr())
	eventually(ctx, t, 0, func() (int, error) {
		left, err := filepath.Glob(filepath.Join(folder, "snapshots", "*"))
		return len(left), err
	})
}

// write writes text into a file at an offset.
func write(t *testing.T, path string, offset int64, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	_, err = file.WriteAt([]byte(text), offset)
	must(t, err)
	must(t, file.Close())
}

// read reads text from a file at an offset.
func read(t *testing.T, path string, offset int64, length int) string {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	content := make([]byte, length)
	_, err = file.ReadAt(content, offset)
	must(t, err)
	must(t, file.Close())
	return string(content)
}

func TestSnapshotHasTheFieldsOfTheAPI(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	client := cinder(ctx, t, cloud, "3.51")
	volume := newVolume(ctx, t, client, volumes.CreateOpts{Size: 3})
	created := newSnapshot(ctx, t, client, snapshots.CreateOpts{
		VolumeID: volume.ID, Name: "s", Description: "text", Metadata: map[string]string{"k": "v"},
	})
	pages, err := snapshots.List(client, snapshots.ListOpts{
		Name: "s", Status: "available", VolumeID: volume.ID, Limit: 5,
	}).AllPages(ctx)
	must(t, err)
	got, err := snapshots.ExtractSnapshots(pages)
	must(t, err)
	want := []snapshots.Snapshot{{
		ID: created.ID, Name: "s", Description: "text", VolumeID: volume.ID, Status: "available", Size: 3,
		Metadata: map[string]string{"k": "v"}, UserID: cloud.Credentials().UserID,
	}}
	ignored := cmpopts.IgnoreFields(snapshots.Snapshot{}, "CreatedAt", "UpdatedAt")
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("snapshots (-want +got):\n%s", diff)
	}
	_, err = backups.Get(ctx, client, created.ID).Extract() // the driver asks before it deletes
	refused(t, err, 404, "Backup "+created.ID+" could not be found.")
}
