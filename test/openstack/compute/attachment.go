//go:build linux

package compute

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/blockstorage"
	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// attach begins to attach a volume; API reference: Attach a volume to an instance.
func (s *Service) attach(r *rest.Request) (rest.Answer, error) {
	var wanted struct {
		VolumeID string `json:"volumeId"`
		Device   string `json:"device"`
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
	if err := canChange(server, "attach_volume"); err != nil {
		return rest.Answer{}, err
	}
	volume, err := s.config.Volumes.Attachable(wanted.VolumeID, server.ID)
	if err != nil {
		return rest.Answer{}, err
	}
	if err := s.canAttach(r, server, volume); err != nil {
		return rest.Answer{}, err
	}
	device := wanted.Device
	if device == "" {
		device = freeDevice(s.config.Volumes.Attachables(server.ID))
	}
	if err := s.config.Volumes.Reserve(volume.VolumeID, server.ID, device); err != nil {
		return rest.Answer{}, inCinder(err)
	}
	s.startAttaching(server.Server, volume, r.Outcome)
	attachment := map[string]any{
		"id": volume.VolumeID, "volumeId": volume.VolumeID, "serverId": server.ID, "device": device,
	}
	addVersioned(r, attachment)
	return rest.Answer{Content: map[string]any{"volumeAttachment": attachment}}, nil
}

// canAttach returns the error of Nova if a volume cannot be attached to a server.
func (s *Service) canAttach(
	r *rest.Request, server record, volume blockstorage.Attachable,
) error {
	attached := s.config.Volumes.Attachables(server.ID)
	switch {
	case !volume.Multiattach && len(volume.Servers) > 0:
		return rest.BadRequest("Invalid volume: volume %s is already attached to instances: %s",
			volume.VolumeID, strings.Join(volume.Servers, " "))
	case slices.Contains(volume.Servers, server.ID):
		return rest.BadRequest("Invalid volume: volume %s already attached", volume.VolumeID)
	case volume.Multiattach && !r.Version.AtLeast(60):
		return rest.BadRequest("Multiattach volumes are only supported starting with compute API " +
			"version 2.60.")
	case server.MaxVolumes > 0 && len(attached) >= server.MaxVolumes:
		return rest.Forbidden("The maximum allowed number of disk devices (%d) to attach to a single "+
			"instance has been exceeded.", server.MaxVolumes)
	}
	return nil
}

// canChange returns the error 409 if the status of a server forbids an action.
func canChange(server record, action string) error {
	allowed := []string{
		"ACTIVE", "PAUSED", "SHUTOFF", "VERIFY_RESIZE", "SOFT_DELETED", "SHELVED", "SHELVED_OFFLOADED",
	}
	if slices.Contains(allowed, server.Status) {
		return nil
	}
	return rest.Conflict("Cannot '%s' instance %s while it is in vm_state %s", action, server.ID,
		vmState(server.Status))
}

// inCinder returns an error of Cinder as Nova passes it on.
func inCinder(err error) error {
	var known *rest.Error
	if errors.As(err, &known) && known.Status == http.StatusBadRequest {
		return rest.BadRequest("Invalid input received: %s (HTTP 400)", known.Message)
	}
	return err
}

// freeDevice returns the first name of a device that no volume has. /dev/vda is the root device.
func freeDevice(attached []blockstorage.Attachable) string {
	var used []string
	for _, volume := range attached {
		used = append(used, volume.Attachment.Device)
	}
	for i := 1; ; i++ {
		name := "/dev/vd" + letters(i)
		if !slices.Contains(used, name) {
			return name
		}
	}
}

// letters returns a, b, ... z, aa, ab, ... for 0, 1, ...
func letters(i int) string {
	text := string(rune('a' + i%26))
	if i < 26 {
		return text
	}
	return letters(i/26-1) + text
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
		func(err error) error {
			if err != nil {
				return s.config.Volumes.RemoveAttachment(volume.VolumeID, server.ID)
			}
			return s.config.Volumes.CompleteAttachment(volume.VolumeID, server.ID, device)
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
	if err := canChange(server, "detach_volume"); err != nil {
		return rest.Answer{}, err
	}
	if err := s.config.Volumes.BeginDetaching(volume.VolumeID, server.ID); err != nil {
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
		func(err error) error {
			if err != nil {
				return s.config.Volumes.RollBackDetaching(volume.VolumeID, server.ID)
			}
			return s.config.Volumes.RemoveAttachment(volume.VolumeID, server.ID)
		})
}

// attachment returns the server and the attached volume of a path, or the error 404.
func (s *Service) attachment(r *rest.Request) (record, blockstorage.Attachable, error) {
	server, err := s.server(r.PathValue("server"))
	if err != nil {
		return record{}, blockstorage.Attachable{}, err
	}
	volume, err := s.config.Volumes.Attachable(r.PathValue("volume"), server.ID)
	if err == nil && volume.Attachment.ID == "" {
		err = rest.NotFound("Instance %s is not attached to volume %s", server.ID, volume.VolumeID)
	}
	return server, volume, err
}

func (s *Service) showAttachment(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server, volume, err := s.attachment(r)
	if err != nil {
		return rest.Answer{}, err
	}
	content := map[string]any{"volumeAttachment": describeAttachment(r, server.ID, volume)}
	return rest.Answer{Content: content}, nil
}

func (s *Service) listAttachments(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server, err := s.server(r.PathValue("server"))
	if err != nil {
		return rest.Answer{}, err
	}
	list := []any{}
	for _, volume := range s.config.Volumes.Attachables(server.ID) {
		list = append(list, describeAttachment(r, server.ID, volume))
	}
	return rest.Answer{Content: map[string]any{"volumeAttachments": list}}, nil
}

// describeAttachment returns an attachment with the fields of the microversion; API reference: Show
// a detail of a volume attachment.
func describeAttachment(
	r *rest.Request, serverID string, volume blockstorage.Attachable,
) map[string]any {
	description := map[string]any{
		"id": volume.VolumeID, "volumeId": volume.VolumeID, "serverId": serverID,
		"device": volume.Attachment.Device,
	}
	addVersioned(r, description)
	if r.Version.AtLeast(89) {
		delete(description, "id")
		description["attachment_id"] = volume.Attachment.ID
		description["bdm_uuid"] = state.NamedID("block device mapping", volume.Attachment.ID)
	}
	return description
}

// addVersioned adds the fields of newer microversions that new attachments and existing ones have.
func addVersioned(r *rest.Request, description map[string]any) {
	if r.Version.AtLeast(70) {
		description["tag"] = nil
	}
	if r.Version.AtLeast(79) {
		description["delete_on_termination"] = false
	}
}
