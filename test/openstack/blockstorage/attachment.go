//go:build linux

package blockstorage

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// Attachment is the attachment of a volume to a server.
type Attachment struct {
	ID, ServerID string
	// Device is the name in the server, such as /dev/vdb.
	Device string
	// Status is reserved, in-use or detaching.
	Status   string
	Attached time.Time
}

// Attachable is a volume as Nova sees it.
type Attachable struct {
	VolumeID string
	// File contains the data; it is empty in a cloud without a folder.
	File        string
	Multiattach bool
	// Servers are the IDs of the servers that it is attached to, or being attached or detached.
	Servers []string
	// Attachment to the server that the caller asked for.
	Attachment Attachment
}

// IsReserved returns whether the attachment is not complete.
func (a Attachment) IsReserved() bool { return a.Status == reserved }

// IsDetaching returns whether the volume is being detached.
func (a Attachment) IsDetaching() bool { return a.Status == detaching }

// Attachable returns a volume, or the error 404.
func (s *Service) Attachable(volumeID, serverID string) (Attachable, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volume(volumeID)
	if err != nil {
		return Attachable{}, err
	}
	return s.attachable(volume, serverID), nil
}

// Attachables returns the volumes that are attached to a server, or being attached or detached,
// those that were attached first first.
func (s *Service) Attachables(serverID string) []Attachable {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Attachable
	for _, volume := range s.volumes.List() {
		if a := s.attachable(volume, serverID); a.Attachment.ID != "" {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b Attachable) int {
		return a.Attachment.Attached.Compare(b.Attachment.Attached)
	})
	return found
}

func (s *Service) attachable(volume Volume, serverID string) Attachable {
	a := Attachable{
		VolumeID: volume.ID, File: s.volumeData.Path(volume.ID), Multiattach: volume.Multiattach,
	}
	for _, attachment := range volume.Attachments {
		a.Servers = append(a.Servers, attachment.ServerID)
		if attachment.ServerID == serverID {
			a.Attachment = attachment
		}
	}
	return a
}

// Reserve begins to attach a volume to a server as a device.
func (s *Service) Reserve(volumeID, serverID, device string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volume(volumeID)
	if err != nil {
		return err
	}
	statuses := "available or downloading"
	if volume.Multiattach {
		statuses = "available or in-use or downloading"
	}
	if volume.Status != available && (!volume.Multiattach || volume.Status != inUse) {
		return rest.BadRequest("Invalid volume: Volume %s status must be %s to reserve, but the current "+
			"status is %s.", volumeID, statuses, volume.Status)
	}
	return s.changeVolume(volumeID, func(v *Volume) {
		v.Status = reserved
		v.Attachments = append(v.Attachments, Attachment{
			ID: newID(), ServerID: serverID, Device: device, Status: reserved, Attached: s.config.Now(),
		})
	})
}

// CompleteAttachment makes a volume attached. The device replaces the reserved one unless it is
// empty.
func (s *Service) CompleteAttachment(volumeID, serverID, device string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changeAttachment(volumeID, serverID, func(a *Attachment) {
		a.Status, a.Attached = inUse, s.config.Now()
		if device != "" {
			a.Device = device
		}
	})
}

// BeginDetaching begins to detach a volume from a server.
func (s *Service) BeginDetaching(volumeID, serverID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volume(volumeID)
	if err != nil {
		return err
	}
	if volume.Status != inUse {
		return rest.BadRequest("Invalid volume: Unable to detach volume. Volume status must be " +
			"'in-use' and attach_status must be 'attached' to detach.")
	}
	return s.changeAttachment(volumeID, serverID, func(a *Attachment) { a.Status = detaching })
}

// RollBackDetaching makes a volume attached again that could not be detached.
func (s *Service) RollBackDetaching(volumeID, serverID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changeAttachment(volumeID, serverID, func(a *Attachment) { a.Status = inUse })
}

// RemoveAttachment makes a volume not attached to a server.
func (s *Service) RemoveAttachment(volumeID, serverID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changeVolume(volumeID, func(v *Volume) {
		v.Attachments = slices.DeleteFunc(v.Attachments,
			func(a Attachment) bool { return a.ServerID == serverID })
		v.settle()
	})
}

func (s *Service) changeAttachment(volumeID, serverID string, change func(*Attachment)) error {
	return s.changeVolume(volumeID, func(v *Volume) {
		for i := range v.Attachments {
			if v.Attachments[i].ServerID == serverID {
				change(&v.Attachments[i])
			}
		}
		v.settle()
	})
}

// settle sets the status of a volume that follows from its attachments.
func (v *Volume) settle() {
	v.Status = available
	for _, status := range []string{inUse, detaching, reserved} {
		if slices.ContainsFunc(v.Attachments, func(a Attachment) bool { return a.Status == status }) {
			v.Status = status
		}
	}
}

// actOnVolume performs the action os-extend. Attached volumes need microversion 3.42.
func (s *Service) actOnVolume(r *rest.Request) (rest.Answer, error) {
	action, err := r.Action()
	if err != nil {
		return rest.Answer{}, err
	}
	if action != "os-extend" {
		return rest.Answer{}, rest.BadRequest("There is no such action: %s", action)
	}
	var wanted struct {
		NewSize int `json:"new_size"`
	}
	if err := r.Decode(action, &wanted); err != nil {
		return rest.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volume(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	expected := available
	if r.Version.AtLeast(42) && volume.Status == inUse {
		expected = inUse
	}
	increase := wanted.NewSize - volume.Size
	switch {
	case increase <= 0:
		return rest.Answer{}, rest.BadRequest("Invalid input received: New size for extend must be "+
			"greater than current size. (current: %d, extended: %d).", volume.Size, wanted.NewSize)
	case volume.Status != expected:
		return rest.Answer{}, rest.BadRequest("Invalid volume: Volume %s status must be '{'status': "+
			"'%s'}' to extend, currently %s.", volume.ID, expected, volume.Status)
	}
	err = s.checkQuota(quotaRequest{gigabytes: increase, volumeSize: wanted.NewSize})
	if err != nil {
		return rest.Answer{}, err
	}
	err = s.changeVolume(volume.ID, func(v *Volume) {
		v.Previous, v.Status, v.NewSize = v.Status, extending, wanted.NewSize
		volume = *v
	})
	if err != nil {
		return rest.Answer{}, err
	}
	s.continueVolume(volume, r.Outcome)
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// extend makes the file of a volume larger, and tells the servers that it is attached to.
func (s *Service) extend(ctx context.Context, volume Volume) error {
	if err := s.volumeData.MakeFile(volume.ID, int64(volume.NewSize)*gibibyte); err != nil {
		return err
	}
	var errs []error
	for _, attachment := range volume.Attachments {
		if s.extended != nil {
			errs = append(errs, s.extended(ctx, attachment.ServerID, volume.ID))
		}
	}
	return errors.Join(errs...)
}
