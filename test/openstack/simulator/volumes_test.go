package simulator

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/snapshots"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func newVolume(
	ctx context.Context, t *testing.T, client *gophercloud.ServiceClient, opts volumes.CreateOpts,
) *volumes.Volume {
	t.Helper()
	created, err := volumes.Create(ctx, client, opts, nil).Extract()
	must(t, err)
	awaitStatus(ctx, t, client, created.ID, "available")
	return created
}

func awaitStatus(
	ctx context.Context, t *testing.T, client *gophercloud.ServiceClient, id, status string,
) {
	t.Helper()
	eventually(ctx, t, status, func() (string, error) {
		volume, err := volumes.Get(ctx, client, id).Extract()
		if err != nil {
			return "", err
		}
		return volume.Status, nil
	})
}

func TestVolumeIsAttachedToOneServer(t *testing.T) {
	t.Parallel()
	const first, second = "11111111-1111-4111-8111-111111111111",
		"22222222-2222-4222-8222-222222222222"
	cloud, ctx := run(t, Config{})
	block := clientOf(ctx, t, cloud, openstack.NewBlockStorageV3, "")
	compute := clientOf(ctx, t, cloud, openstack.NewComputeV2, "")
	cloud.AddServer(Server{ID: first, Name: "node-0"})
	cloud.AddServer(Server{ID: second, Name: "node-1"})
	volume := newVolume(ctx, t, block, volumes.CreateOpts{Size: 1})
	opts := volumeattach.CreateOpts{VolumeID: volume.ID}
	_, err := volumeattach.Create(ctx, compute, first, opts).Extract()
	must(t, err)
	awaitStatus(ctx, t, block, volume.ID, "in-use")
	_, err = volumeattach.Create(ctx, compute, second, opts).Extract()
	assert.Check(t, gophercloud.ResponseCodeIs(err, http.StatusBadRequest), "got %v, want 400", err)
}

func TestVolumesAreSparseFilesAndCopiesContainTheirData(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cloud, ctx := run(t, Config{State: folder})
	client := clientOf(ctx, t, cloud, openstack.NewBlockStorageV3, "3.51")
	source := newVolume(ctx, t, client, volumes.CreateOpts{Size: 1})
	write(t, filepath.Join(folder, "volumes", source.ID), 5<<20, "data")

	snapshot, err := snapshots.Create(ctx, client,
		snapshots.CreateOpts{VolumeID: source.ID, Name: "s"}).Extract()
	must(t, err)
	eventually(ctx, t, "available", func() (string, error) {
		snapshot, err := snapshots.Get(ctx, client, snapshot.ID).Extract()
		if err != nil {
			return "", err
		}
		return snapshot.Status, nil
	})
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
		assert.Check(t, is.Equal(read(t, path, 5<<20, len(test.want)), test.want),
			"a volume from a %s", name)
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

func write(t *testing.T, path string, offset int64, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	_, err = file.WriteAt([]byte(text), offset)
	must(t, err)
	must(t, file.Close())
}

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
