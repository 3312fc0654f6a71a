package compute

import (
	"context"
	"net/http"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/blockstorage"
	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// attach begins to attach a volume; API reference: Attach a volume to an instance. A volume that
// cannot be attached is available again, as in Nova.
func (s *Service) attach(r *rest.Request) (rest.Answer, error) {
	var wanted struct {
		VolumeID string `json:"volumeId"`
	}
	if err := r.Decode("volumeAttachment", &wanted); err != nil {
		return rest.Answer{}, err
	}
	server, err := s.server(r.PathValue("server"))
	if err != nil {
		return rest.Answer{}, err
	}
	device := "/dev/vdb" // the machine chooses another name
	id, volumes := wanted.VolumeID, s.config.Volumes
	err = volumes.Change(id, func(v *blockstorage.Volume) error {
		switch {
		case v.Attachment.ServerID != "":
			return rest.BadRequest("Invalid volume: volume %s is already attached to instances: %s", id,
				v.Attachment.ServerID)
		case v.Status != rest.Available:
			return rest.BadRequest("Invalid input received: Invalid volume: Volume %s status must be "+
				"available or downloading to reserve, but the current status is %s. (HTTP 400)", id,
				v.Status)
		}
		v.Attachment = blockstorage.Attachment{ID: rest.NewID(), ServerID: server.ID, Device: device}
		v.Set(blockstorage.Reserved)
		return nil
	})
	if err != nil {
		return rest.Answer{}, err
	}
	answer := rest.Answer{Content: map[string]any{"volumeAttachment": map[string]any{
		"id": id, "volumeId": id, "serverId": server.ID, "device": device,
	}}}
	s.start(r, id, func(ctx context.Context) (err error) {
		if server.Machine != nil {
			device, err = server.Machine.Attach(ctx, id, volumes.File(id))
		}
		return err
	}, func(v *blockstorage.Volume, err error) {
		if err != nil {
			release(v)
			return
		}
		v.Attachment.Device, v.Attachment.Attached = device, time.Now()
		v.Set(blockstorage.InUse)
	})
	return answer, nil
}

// detach begins to detach a volume; API reference: Detach a volume from an instance. A volume that
// cannot be detached stays attached.
func (s *Service) detach(r *rest.Request) (rest.Answer, error) {
	server, err := s.server(r.PathValue("server"))
	if err != nil {
		return rest.Answer{}, err
	}
	id := r.PathValue("volume")
	err = s.config.Volumes.Change(id, func(v *blockstorage.Volume) error {
		switch {
		case v.Attachment.ServerID != server.ID:
			return rest.NotFound("Instance %s is not attached to volume %s", server.ID, id)
		case v.Status != blockstorage.InUse:
			return rest.BadRequest("Invalid volume: Invalid input received: Invalid volume: Unable to " +
				"detach volume. Volume status must be 'in-use' and attach_status must be 'attached' to " +
				"detach. (HTTP 400)")
		}
		v.Set(blockstorage.Detaching)
		return nil
	})
	if err != nil {
		return rest.Answer{}, err
	}
	s.start(r, id, func(ctx context.Context) error {
		if server.Machine == nil {
			return nil
		}
		return server.Machine.Detach(ctx, id)
	}, func(v *blockstorage.Volume, err error) {
		if err != nil {
			v.Set(blockstorage.InUse)
			return
		}
		release(v)
	})
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// release makes a volume not attached.
func release(v *blockstorage.Volume) {
	v.Attachment = blockstorage.Attachment{}
	v.Set(rest.Available)
}

// start begins an operation on a volume, which exists while it has an attachment.
func (s *Service) start(r *rest.Request, volumeID string, work func(context.Context) error,
	complete func(*blockstorage.Volume, error),
) {
	s.config.Worker.Start(r.Outcome, work, func(err error) {
		_ = s.config.Volumes.Change(volumeID, func(v *blockstorage.Volume) error {
			complete(v, err)
			return nil
		})
	})
}
