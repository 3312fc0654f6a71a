package simulator

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/messages"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
)

func TestAnswersWaitUntilOperationsAreCompleteIfAskedTo(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{Settle: patience, OperationTime: 50 * time.Millisecond})
	client := cinder(ctx, t, cloud, "")
	volume, err := volumes.Create(ctx, client, volumes.CreateOpts{Size: 1}, nil).Extract()
	must(t, err)
	status, err := volumeStatus(ctx, client, volume.ID)()
	must(t, err)
	if volume.Status != "creating" || status != "available" {
		t.Errorf("the answer says %s, and the next one %s", volume.Status, status)
	}
}

func TestSourceOfACopyIsDeletedAfterTheCopy(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cloud, ctx := run(t, Config{State: folder})
	client := cinder(ctx, t, cloud, "")
	source := newVolume(ctx, t, client, volumes.CreateOpts{Size: 1})
	write(t, filepath.Join(folder, "volumes", source.ID), 0, "data")
	stall := set(t, cloud, Fault{Mode: Stall, Service: Volume, Times: 1})
	copied, err := volumes.Create(ctx, client, volumes.CreateOpts{Size: 1, SourceVolID: source.ID},
		nil).Extract()
	must(t, err)
	must(t, volumes.Delete(ctx, client, source.ID, nil).ExtractErr())
	must(t, cloud.ClearFaults(stall.ID))
	eventually(ctx, t, "available", volumeStatus(ctx, client, copied.ID))
	eventually(ctx, t, "", volumeStatus(ctx, client, source.ID))
	if got := read(t, filepath.Join(folder, "volumes", copied.ID), 0, 4); got != "data" {
		t.Errorf("the copy contains %q", got)
	}
}

func TestFailedOperationsEndInErrorStates(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("default")})
	block, compute := cinder(ctx, t, cloud, "3.42"), nova(ctx, t, cloud)
	files := manila(ctx, t, cloud)
	cloud.AddServer(Server{ID: firstServer, Name: "node-0"})
	volume := newVolume(ctx, t, block, volumes.CreateOpts{Size: 1})
	other := newVolume(ctx, t, block, volumes.CreateOpts{Size: 1})
	share := newShare(ctx, t, files, shares.CreateOpts{Size: 1})
	fail := func(service Service) { set(t, cloud, Fault{Mode: Fail, Service: service, Times: 1}) }

	fail(Volume)
	broken, err := volumes.Create(ctx, block, volumes.CreateOpts{Size: 1}, nil).Extract()
	must(t, err)
	eventually(ctx, t, "error", volumeStatus(ctx, block, broken.ID))
	must(t, volumes.Delete(ctx, block, broken.ID, nil).ExtractErr())
	eventually(ctx, t, "", volumeStatus(ctx, block, broken.ID))
	fail(Volume)
	must(t, volumes.ExtendSize(ctx, block, other.ID, volumes.ExtendSizeOpts{NewSize: 2}).ExtractErr())
	eventually(ctx, t, "error_extending", volumeStatus(ctx, block, other.ID))
	fail(Volume)
	must(t, volumes.Delete(ctx, block, other.ID, nil).ExtractErr())
	eventually(ctx, t, "error_deleting", volumeStatus(ctx, block, other.ID))

	fail(Compute)
	_, err = attach(ctx, compute, firstServer, volume.ID)
	must(t, err)
	eventually(ctx, t, "available", volumeStatus(ctx, block, volume.ID))
	_, err = attach(ctx, compute, firstServer, volume.ID)
	must(t, err)
	eventually(ctx, t, "in-use", volumeStatus(ctx, block, volume.ID))
	fail(Compute)
	must(t, volumeattach.Delete(ctx, compute, firstServer, volume.ID).ExtractErr())
	eventually(ctx, t, "in-use", volumeStatus(ctx, block, volume.ID))

	fail(Share)
	must(t, shares.Extend(ctx, files, share.ID, shares.ExtendOpts{NewSize: 2}).ExtractErr())
	eventually(ctx, t, "extending_error", shareStatus(ctx, files, share.ID))
	fail(Share)
	failed, err := shares.Create(ctx, files, shares.CreateOpts{ShareProto: "NFS", Size: 1}).Extract()
	must(t, err)
	eventually(ctx, t, "error", shareStatus(ctx, files, failed.ID))
	_, err = messages.List(files, messages.ListOpts{ResourceID: failed.ID}).AllPages(ctx)
	must(t, err) // the driver looks for a reason
}

func TestFaultsAboutRequestsAffectNewResources(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	client := cinder(ctx, t, cloud, "")
	set(t, cloud, Fault{
		Mode: Status, Status: http.StatusServiceUnavailable, PathPrefix: "/volume/v3/volumes",
		Method: http.MethodPost, Times: 1,
	})
	_, err := volumes.Create(ctx, client, volumes.CreateOpts{Size: 1}, nil).Extract()
	if !gophercloud.ResponseCodeIs(err, http.StatusServiceUnavailable) {
		t.Errorf("got %v, want 503", err)
	}
	newVolume(ctx, t, client, volumes.CreateOpts{Size: 1})
}
