//go:build linux

package blockstorage

import (
	"cmp"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// Attachment is the attachment of a volume to a server. The zero value is none.
type Attachment struct {
	ID, ServerID string
	// Device is the name in the server, such as /dev/vdb.
	Device   string
	Attached time.Time
}

// Attachable is a volume as Nova sees it.
type Attachable struct {
	VolumeID string
	// File contains the data; it is empty in a cloud without a folder.
	File string
	// ServerID is the server that it is attached to, or being attached or detached; "" if none.
	ServerID string
}

// Attachable returns a volume, or the error 404.
func (s *Service) Attachable(volumeID string) (Attachable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volumes.Find(volumeID)
	if err != nil {
		return Attachable{}, err
	}
	file := s.volumes.Data.Path(volumeID)
	return Attachable{volumeID, file, volume.Attachment.ServerID}, nil
}

// Reserve begins to attach a volume to a server as a device.
func (s *Service) Reserve(volumeID, serverID, device string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volumes.Find(volumeID)
	if err != nil {
		return err
	}
	if volume.Status != rest.Available {
		return rest.BadRequest("Invalid volume: Volume %s status must be available or downloading to "+
			"reserve, but the current status is %s.", volumeID, volume.Status)
	}
	volume.Set(reserved)
	volume.Attachment = Attachment{rest.NewID(), serverID, device, volume.Updated}
	return nil
}

// CompleteAttachment makes a volume attached. The device replaces the reserved one unless it is
// empty.
func (s *Service) CompleteAttachment(volumeID, device string) {
	s.change(volumeID, inUse, func(a Attachment) Attachment {
		return Attachment{a.ID, a.ServerID, cmp.Or(device, a.Device), time.Now()}
	})
}

// change changes the state and the attachment of a volume, which exists while it is attached.
func (s *Service) change(volumeID, status string, attachment func(Attachment) Attachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if volume, err := s.volumes.Find(volumeID); err == nil {
		volume.Attachment = attachment(volume.Attachment)
		volume.Set(status)
	}
}

// BeginDetaching begins to detach a volume.
func (s *Service) BeginDetaching(volumeID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volumes.Find(volumeID)
	if err != nil {
		return err
	}
	if volume.Status != inUse {
		return rest.BadRequest("Invalid volume: Unable to detach volume. Volume status must be " +
			"'in-use' and attach_status must be 'attached' to detach.")
	}
	volume.Set(detaching)
	return nil
}

// RollBackDetaching makes a volume attached again that could not be detached.
func (s *Service) RollBackDetaching(volumeID string) {
	s.change(volumeID, inUse, func(a Attachment) Attachment { return a })
}

// RemoveAttachment makes a volume not attached.
func (s *Service) RemoveAttachment(volumeID string) {
	s.change(volumeID, rest.Available, func(Attachment) Attachment { return Attachment{} })
}
