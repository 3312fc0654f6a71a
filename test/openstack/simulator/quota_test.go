package simulator

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/quotasets"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/snapshots"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	sharesnapshots "github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/snapshots"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// overQuota expects a request to be refused with a text.
func overQuota(t *testing.T, err error, text string) {
	t.Helper()
	assert.Check(t, gophercloud.ResponseCodeIs(err, 413) && strings.Contains(err.Error(), text),
		"got %v, want 413 and %q", err, text)
}

// What a snapshot or an extension needs counts, too. Package comparison compares the rest with the
// services.
func TestQuotasOfVolumesCountSnapshotsAndExtensions(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{VolumeQuotas: []Quota{{Resource: "gigabytes", Limit: 10}}})
	block := clientOf(ctx, t, cloud, openstack.NewBlockStorageV3, "")
	volume := newVolume(ctx, t, block, volumes.CreateOpts{Size: 4})
	extend := func(size int) error {
		return volumes.ExtendSize(ctx, block, volume.ID, volumes.ExtendSizeOpts{NewSize: size}).
			ExtractErr()
	}
	snapshot := func() error {
		return snapshots.Create(ctx, block, snapshots.CreateOpts{VolumeID: volume.ID}).Err
	}
	must(t, snapshot())
	overQuota(t, extend(7), "Requested 3G, quota is 10G and 8G has been consumed.")
	overQuota(t, snapshot(), "Requested 4G, quota is 10G and 8G has been consumed.")
	must(t, cloud.SetQuotas(Volume, Quota{Resource: "gigabytes", Limit: -1},
		Quota{Resource: "snapshots___DEFAULT__", Limit: 1}))
	overQuota(t, snapshot(), "Maximum number of snapshots allowed (1) exceeded")
	must(t, extend(7))
}

func TestQuotasShowReservationsAndOthers(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{VolumeQuotas: []Quota{
		{Resource: "gigabytes", Limit: 100, Others: 20, Reserved: 3}, {Resource: "volumes", Limit: 0},
	}})
	block := clientOf(ctx, t, cloud, openstack.NewBlockStorageV3, "")
	create := func() error {
		return volumes.Create(ctx, block, volumes.CreateOpts{Size: 5}, nil).Err
	}
	overQuota(t, create(), "Maximum number of volumes allowed (0) exceeded for quota 'volumes'.")
	must(t, cloud.SetQuotas(Volume, Quota{Resource: "volumes", Limit: 1}))
	volume := newVolume(ctx, t, block, volumes.CreateOpts{Size: 5})
	set(t, cloud, Fault{Mode: Stall})
	must(t, volumes.ExtendSize(ctx, block, volume.ID, volumes.ExtendSizeOpts{NewSize: 9}).ExtractErr())
	found, err := quotasets.GetUsage(ctx, block, cloud.Credentials().ProjectID).Extract()
	must(t, err)
	assert.Check(t, is.DeepEqual(quotasets.QuotaUsage{InUse: 25, Reserved: 7, Limit: 100},
		found.Gigabytes))
}

func TestQuotasOfSharesCountSnapshotsAndExtensions(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("gold", "other"), ShareQuotas: []Quota{
		{Resource: "gigabytes", Limit: 20},
		{Resource: "gigabytes", ShareType: "gold", Limit: 5},
		{Resource: "snapshots", Limit: 0},
	}})
	manila := clientOf(ctx, t, cloud, openstack.NewSharedFileSystemV2, "2.65")
	share := newShareOf(ctx, t, manila, "gold", 4)
	extend := func(size int) error {
		return shares.Extend(ctx, manila, share, shares.ExtendOpts{NewSize: size}).ExtractErr()
	}
	overQuota(t, extend(6), "Requested share exceeds allowed project/user or share type gigabytes")
	newShareOf(ctx, t, manila, "other", 6)
	overQuota(t, sharesnapshots.Create(ctx, manila, sharesnapshots.CreateOpts{ShareID: share}).Err,
		"Maximum number of snapshots allowed (0)")
	must(t, cloud.SetQuotas(Share, Quota{Resource: "gigabytes", User: true, Limit: 10}))
	overQuota(t, extend(5), "Requested share exceeds allowed project/user or share type gigabytes")
	must(t, cloud.SetQuotas(Share, Quota{Resource: "gigabytes", User: true, Limit: 11}))
	must(t, extend(5))
}

func newShareOf(
	ctx context.Context, t *testing.T, manila *gophercloud.ServiceClient, typeName string, size int,
) string {
	t.Helper()
	created, err := shares.Create(ctx, manila, shares.CreateOpts{
		ShareProto: "NFS", Size: size, ShareType: typeName,
	}).Extract()
	must(t, err)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	eventually(ctx, t, "available", func() (string, error) {
		share, err := shares.Get(ctx, manila, created.ID).Extract()
		if err != nil {
			return "", err
		}
		return share.Status, nil
	})
	return created.ID
}
