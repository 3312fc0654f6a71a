package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
)

// The servers of these tests.
const (
	firstServer  = "11111111-1111-4111-8111-111111111111"
	secondServer = "22222222-2222-4222-8222-222222222222"
)

// recorder is a Machine that records calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
	err   error // returned once
}

func (m *recorder) record(format string, values ...any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, fmt.Sprintf(format, values...))
	err := m.err
	m.err = nil
	return err
}

func (m *recorder) Attach(_ context.Context, volumeID, file string) (string, error) {
	return "/dev/loop7", m.record("attach %s %s", volumeID, filepath.Base(file))
}

func (m *recorder) Detach(_ context.Context, volumeID string) error {
	return m.record("detach %s", volumeID)
}

func (m *recorder) Resize(_ context.Context, volumeID string) error {
	return m.record("resize %s", volumeID)
}

// take returns the calls since the last take.
func (m *recorder) take() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls := m.calls
	m.calls = nil
	return calls
}

func nova(ctx context.Context, t *testing.T, cloud *Simulator) *gophercloud.ServiceClient {
	t.Helper()
	return clientOf(ctx, t, cloud, openstack.NewComputeV2, "")
}

func attach(
	ctx context.Context, client *gophercloud.ServiceClient, server, volume string,
) (*volumeattach.VolumeAttachment, error) {
	opts := volumeattach.CreateOpts{VolumeID: volume}
	return volumeattach.Create(ctx, client, server, opts).Extract()
}

func TestServerHasTheFieldsOfTheAPI(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	client := nova(ctx, t, cloud)
	cloud.AddServer(Server{ID: firstServer, Name: "node-0", Zone: "nova"})
	got, err := servers.Get(ctx, client, firstServer).Extract()
	must(t, err)
	if got.Name != "node-0" || got.Status != "ACTIVE" || got.AvailabilityZone != "nova" ||
		got.TenantID != cloud.Credentials().ProjectID || got.VmState != "active" ||
		got.PowerState != servers.RUNNING {
		t.Errorf("got %+v", got)
	}
	_, err = servers.Get(ctx, client, "x").Extract()
	refused(t, err, 404, "Instance x could not be found.")
}

func TestVolumeIsAttachedExtendedAndDetachedByTheMachine(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{State: t.TempDir()})
	compute, block := nova(ctx, t, cloud), cinder(ctx, t, cloud, "3.42")
	machine := &recorder{}
	cloud.AddServer(Server{ID: firstServer, Name: "node-0", Machine: machine})
	volume := newVolume(ctx, t, block, volumes.CreateOpts{Size: 1})

	attachment, err := attach(ctx, compute, firstServer, volume.ID)
	must(t, err)
	want := &volumeattach.VolumeAttachment{
		ID: volume.ID, VolumeID: volume.ID, ServerID: firstServer, Device: "/dev/vdb",
	}
	if diff := cmp.Diff(want, attachment); diff != "" {
		t.Errorf("attachment (-want +got):\n%s", diff)
	}
	eventually(ctx, t, "in-use", volumeStatus(ctx, block, volume.ID))
	attached, err := volumes.Get(ctx, block, volume.ID).Extract()
	must(t, err)
	wantAttached := []volumes.Attachment{{
		ID: volume.ID, VolumeID: volume.ID, ServerID: firstServer, Device: "/dev/loop7",
	}}
	ignored := cmpopts.IgnoreFields(volumes.Attachment{}, "AttachmentID", "AttachedAt")
	if diff := cmp.Diff(wantAttached, attached.Attachments, ignored); diff != "" {
		t.Errorf("attachments (-want +got):\n%s", diff)
	}
	must(t, volumes.ExtendSize(ctx, block, volume.ID,
		volumes.ExtendSizeOpts{NewSize: 3}).ExtractErr())
	eventually(ctx, t, 3, func() (int, error) {
		volume, err := volumes.Get(ctx, block, volume.ID).Extract()
		if err != nil {
			return 0, err
		}
		return volume.Size, nil
	})
	must(t, volumeattach.Delete(ctx, compute, firstServer, volume.ID).ExtractErr())
	eventually(ctx, t, "available", volumeStatus(ctx, block, volume.ID))
	wantCalls := []string{
		"attach " + volume.ID + " " + volume.ID, "resize " + volume.ID, "detach " + volume.ID,
	}
	if diff := cmp.Diff(wantCalls, machine.take()); diff != "" {
		t.Errorf("calls of the machine (-want +got):\n%s", diff)
	}
}

func TestAttachmentsAreRefusedAsNovaDoes(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	compute, block := nova(ctx, t, cloud), cinder(ctx, t, cloud, "")
	cloud.AddServer(Server{ID: firstServer, Name: "node-0"})
	cloud.AddServer(Server{ID: secondServer, Name: "node-1"})
	volume := newVolume(ctx, t, block, volumes.CreateOpts{Size: 1})
	_, err := attach(ctx, compute, firstServer, volume.ID)
	must(t, err)
	eventually(ctx, t, "in-use", volumeStatus(ctx, block, volume.ID))

	_, err = attach(ctx, compute, secondServer, volume.ID)
	refused(t, err, 400, "Invalid volume: volume "+volume.ID+" is already attached to instances: "+
		firstServer)
	_, err = attach(ctx, compute, "x", volume.ID)
	refused(t, err, 404, "Instance x could not be found.")
	_, err = attach(ctx, compute, secondServer, "x")
	refused(t, err, 404, "Volume x could not be found.")
	err = volumeattach.Delete(ctx, compute, secondServer, volume.ID).ExtractErr()
	refused(t, err, 404, "Instance "+secondServer+" is not attached to volume "+volume.ID)
	err = volumes.ExtendSize(ctx, block, volume.ID, volumes.ExtendSizeOpts{NewSize: 2}).ExtractErr()
	refused(t, err, 400, "Invalid volume: Volume "+volume.ID+" status must be '{'status': "+
		"'available'}' to extend, currently in-use.")
}

func TestVolumeThatTheMachineCannotAttachIsAvailableAgain(t *testing.T) {
	t.Parallel()
	reported := make(chan error, 1)
	cloud, ctx := run(t, Config{State: t.TempDir(), Report: func(err error) { reported <- err }})
	compute, block := nova(ctx, t, cloud), cinder(ctx, t, cloud, "")
	machine := &recorder{err: errors.New("no loop device")}
	cloud.AddServer(Server{ID: firstServer, Name: "node-0", Machine: machine})
	volume := newVolume(ctx, t, block, volumes.CreateOpts{Size: 1})
	_, err := attach(ctx, compute, firstServer, volume.ID)
	must(t, err)
	eventually(ctx, t, "available", volumeStatus(ctx, block, volume.ID))
	select {
	case err := <-reported:
		if err.Error() != "no loop device" {
			t.Errorf("reported %v", err)
		}
	case <-ctx.Done():
		t.Error("no error was reported")
	}
}

func TestMetadataServiceDescribesTheServer(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	service := httptest.NewServer(cloud.Metadata(firstServer))
	t.Cleanup(service.Close)
	get := func(path string) (int, map[string]any) {
		t.Helper()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, service.URL+path, nil)
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		defer response.Body.Close()
		body := map[string]any{}
		if response.StatusCode == http.StatusOK {
			must(t, json.NewDecoder(response.Body).Decode(&body))
		}
		return response.StatusCode, body
	}
	const path = "/openstack/latest/meta_data.json"
	if status, _ := get(path); status != http.StatusNotFound {
		t.Errorf("without a server: status %d", status)
	}
	cloud.AddServer(Server{ID: firstServer, Name: "node-0", Zone: "north"})
	_, got := get(path)
	want := map[string]any{
		"uuid": firstServer, "name": "node-0", "hostname": "node-0", "availability_zone": "north",
		"launch_index": 0.0, "project_id": cloud.Credentials().ProjectID, "devices": []any{},
		"dedicated_cpus": []any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}
