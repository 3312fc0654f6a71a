//go:build linux

package compute

import (
	"context"
	"errors"
	"net/http"

	"github.com/openstack-csi/csi-operator/test/openstack/blockstorage"
	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// attach begins to attach a volume; API reference: Attach a volume to an instance.
func (s *Service) attach(r *rest.Request) (rest.Answer, error) {
	var wanted struct {
		VolumeID string `json:"volumeId"`
	}
	if err := r.Decode("volumeAttachment", &wanted); err != nil {
		return rest.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	server, err := s.server(r.PathValue("server"))
	if err != nil {
		return rest.Answer{}, err
	}
	volume, err := s.config.Volumes.Attachable(wanted.VolumeID)
	if err != nil {
		return rest.Answer{}, err
	}
	if volume.ServerID != "" {
		return rest.Answer{}, rest.BadRequest("Invalid volume: volume %s is already attached to "+
			"instances: %s", volume.VolumeID, volume.ServerID)
	}
	device := "/dev/vdb" // the machine chooses another name
	if err := s.config.Volumes.Reserve(volume.VolumeID, server.ID, device); err != nil {
		return rest.Answer{}, inCinder(err)
	}
	s.startAttaching(server.Server, volume, r.Outcome)
	return rest.Answer{Content: map[string]any{"volumeAttachment": map[string]any{
		"id": volume.VolumeID, "volumeId": volume.VolumeID, "serverId": server.ID, "device": device,
	}}}, nil
}

// inCinder returns an error of Cinder as Nova passes it on.
func inCinder(err error) error {
	var known *rest.Error
	if errors.As(err, &known) && known.Status == http.StatusBadRequest {
		return rest.BadRequest("Invalid input received: %s (HTTP 400)", known.Message)
	}
	return err
}

// startAttaching attaches a reserved volume in the background. A volume that cannot be attached is
// available again, as in Nova.
func (s *Service) startAttaching(
	server Server, volume blockstorage.Attachable, outcome state.Outcome,
) {
	var device string
	s.config.Worker.Start(outcome,
		func(ctx context.Context) (err error) {
			if server.Machine != nil {
				device, err = server.Machine.Attach(ctx, volume.VolumeID, volume.File)
			}
			return err
		},
		func(err error) {
			if err != nil {
				s.config.Volumes.RemoveAttachment(volume.VolumeID)
				return
			}
			s.config.Volumes.CompleteAttachment(volume.VolumeID, device)
		})
}

// detach begins to detach a volume; API reference: Detach a volume from an instance.
func (s *Service) detach(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server, volume, err := s.attachment(r)
	if err != nil {
		return rest.Answer{}, err
	}
	if err := s.config.Volumes.BeginDetaching(volume.VolumeID); err != nil {
		var known *rest.Error
		if errors.As(err, &known) {
			err = rest.BadRequest("Invalid volume: %s", inCinder(err))
		}
		return rest.Answer{}, err
	}
	s.startDetaching(server.Server, volume, r.Outcome)
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// startDetaching detaches a volume in the background. A volume that cannot be detached stays
// attached.
func (s *Service) startDetaching(
	server Server, volume blockstorage.Attachable, outcome state.Outcome,
) {
	s.config.Worker.Start(outcome,
		func(ctx context.Context) error {
			if server.Machine == nil {
				return nil
			}
			return server.Machine.Detach(ctx, volume.VolumeID)
		},
		func(err error) {
			if err != nil {
				s.config.Volumes.RollBackDetaching(volume.VolumeID)
				return
			}
			s.config.Volumes.RemoveAttachment(volume.VolumeID)
		})
}

// attachment returns the server and the attached volume of a path, or the error 404.
func (s *Service) attachment(r *rest.Request) (record, blockstorage.Attachable, error) {
	server, err := s.server(r.PathValue("server"))
	if err != nil {
		return record{}, blockstorage.Attachable{}, err
	}
	volume, err := s.config.Volumes.Attachable(r.PathValue("volume"))
	if err == nil && volume.ServerID != server.ID {
		err = rest.NotFound("Instance %s is not attached to volume %s", server.ID, volume.VolumeID)
	}
	return server, volume, err
}
