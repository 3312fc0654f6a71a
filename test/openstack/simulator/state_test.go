package simulator

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/snapshots"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
)

func TestCloudSurvivesARestart(t *testing.T) {
	t.Parallel()
	config := Config{State: t.TempDir(), ShareTypes: named("default"), TLS: true}
	first, ctx := run(t, config)
	block, files := cinder(ctx, t, first, "3.42"), manila(ctx, t, first)
	machine := &recorder{}
	must(t, first.AddServer(ctx, Server{ID: firstServer, Name: "node-0", Machine: machine}))
	volume := newVolume(ctx, t, block, volumes.CreateOpts{Size: 1, Name: "v"})
	_, err := attach(ctx, nova(ctx, t, first, ""), firstServer, volume.ID)
	must(t, err)
	eventually(ctx, t, "in-use", volumeStatus(ctx, block, volume.ID))
	write(t, filepath.Join(config.State, "volumes", volume.ID), 0, "data")
	share := newShare(ctx, t, files, shares.CreateOpts{Size: 1, Name: "s"})
	_, err = grant(ctx, files, share.ID, "10.0.0.1", "rw")
	must(t, err)
	before, err := volumes.Get(ctx, block, volume.ID).Extract()
	must(t, err)
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "another cloud uses") {
		t.Errorf("a second simulator with the same state: %v", err)
	}
	must(t, first.Close())
	machine.take()

	second, ctx := run(t, config)
	if diff := cmp.Diff(first.Info(), second.Info()); diff != "" {
		t.Errorf("addresses (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(first.Credentials(), second.Credentials()); diff != "" {
		t.Error("the credentials are not the same")
	}
	if diff := cmp.Diff(string(first.CA()), string(second.CA())); diff != "" {
		t.Error("the CA is not the same")
	}
	block, files = cinder(ctx, t, second, "3.42"), manila(ctx, t, second)
	after, err := volumes.Get(ctx, block, volume.ID).Extract()
	must(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("volume (-before +after):\n%s", diff)
	}
	path := filepath.Join(config.State, "volumes", volume.ID)
	if got := read(t, path, 0, 4); got != "data" {
		t.Errorf("the volume contains %q", got)
	}
	must(t, second.AddServer(ctx, Server{ID: firstServer, Name: "node-0", Machine: machine}))
	want := []string{"attach " + volume.ID + " " + volume.ID}
	if diff := cmp.Diff(want, machine.take()); diff != "" {
		t.Errorf("calls of the machine after the restart (-want +got):\n%s", diff)
	}
	rules, err := shares.ListAccessRights(ctx, files, share.ID).Extract()
	must(t, err)
	if len(rules) != 1 {
		t.Errorf("rules of the share: %+v", rules)
	}
}

func TestOperationsContinueAfterARestart(t *testing.T) {
	t.Parallel()
	config := Config{State: t.TempDir(), ShareTypes: named("default")}
	first, ctx := run(t, config)
	block, compute := cinder(ctx, t, first, "3.42"), nova(ctx, t, first, "")
	files := manila(ctx, t, first)
	must(t, first.AddServer(ctx, Server{ID: firstServer, Name: "node-0"}))
	create := func() string {
		t.Helper()
		return newVolume(ctx, t, block, volumes.CreateOpts{Size: 1}).ID
	}
	deleted, extended, attached, detached, source := create(), create(), create(), create(), create()
	_, err := attach(ctx, compute, firstServer, detached)
	must(t, err)
	eventually(ctx, t, "in-use", volumeStatus(ctx, block, detached))

	set(t, first, Fault{Mode: Stall})
	must(t, volumes.Delete(ctx, block, deleted, nil).ExtractErr())
	must(t, volumes.ExtendSize(ctx, block, extended, volumes.ExtendSizeOpts{NewSize: 2}).ExtractErr())
	_, err = attach(ctx, compute, firstServer, attached)
	must(t, err)
	must(t, volumeattach.Delete(ctx, compute, firstServer, detached).ExtractErr())
	created, err := volumes.Create(ctx, block, volumes.CreateOpts{Size: 1, SourceVolID: source},
		nil).Extract()
	must(t, err)
	snapshot, err := snapshots.Create(ctx, block, snapshots.CreateOpts{VolumeID: source}).Extract()
	must(t, err)
	share, err := shares.Create(ctx, files, shares.CreateOpts{ShareProto: "NFS", Size: 1}).Extract()
	must(t, err)
	for id, status := range map[string]string{
		deleted: "deleting", extended: "extending", attached: "reserved", detached: "detaching",
		created.ID: "creating",
	} {
		if got, err := volumeStatus(ctx, block, id)(); err != nil || got != status {
			t.Errorf("before the restart: %s, %v, want %s", got, err, status)
		}
	}
	must(t, first.Close())

	second, ctx := run(t, config)
	block, files = cinder(ctx, t, second, "3.42"), manila(ctx, t, second)
	must(t, second.AddServer(ctx, Server{ID: firstServer, Name: "node-0"}))
	for id, status := range map[string]string{
		deleted: "", extended: "available", attached: "in-use", detached: "available",
		created.ID: "available",
	} {
		eventually(ctx, t, status, volumeStatus(ctx, block, id))
	}
	eventually(ctx, t, "available", shareStatus(ctx, files, share.ID))
	eventually(ctx, t, "available", func() (string, error) {
		found, err := snapshots.Get(ctx, block, snapshot.ID).Extract()
		if err != nil {
			return "", err
		}
		return found.Status, nil
	})
	must(t, snapshots.Delete(ctx, block, snapshot.ID).ExtractErr())
}

func TestDataWithoutRecordIsRemovedAtTheStart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"volumes", "shares"} {
		must(t, os.MkdirAll(filepath.Join(folder, name, "left"), 0o755))
	}
	run(t, Config{State: folder})
	left, err := filepath.Glob(filepath.Join(folder, "*", "left"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("%v still exists", left)
	}
}

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
	block, compute := cinder(ctx, t, cloud, "3.42"), nova(ctx, t, cloud, "")
	files := manila(ctx, t, cloud)
	must(t, cloud.AddServer(ctx, Server{ID: firstServer, Name: "node-0"}))
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
	eventually(ctx, t, "015", func() (string, error) { return lastDetail(ctx, files, share.ID) })
	fail(Share)
	failed, err := shares.Create(ctx, files, shares.CreateOpts{ShareProto: "NFS", Size: 1}).Extract()
	must(t, err)
	eventually(ctx, t, "error", shareStatus(ctx, files, failed.ID))
	eventually(ctx, t, "002", func() (string, error) { return lastDetail(ctx, files, failed.ID) })
}

func TestMachineNeedsStateOnDisk(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	err := cloud.AddServer(ctx, Server{ID: firstServer, Name: "node-0", Machine: &recorder{}})
	if err == nil {
		t.Error("a server with a Machine was added to a cloud without data")
	}
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
