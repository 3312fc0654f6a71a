//go:build linux

package blockstorage

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// The states of volumes and snapshots that the simulator uses.
const (
	creating       = "creating"
	available      = "available"
	deleting       = "deleting"
	failed         = "error"
	errorDeleting  = "error_deleting"
	extending      = "extending"
	errorExtending = "error_extending"
	reserved       = "reserved"
	inUse          = "in-use"
	detaching      = "detaching"
)

// Volume is the record of a volume.
type Volume struct {
	ID, Name, Description string
	Type                  string
	Status                string
	// Size is in GiB.
	Size                 int
	Zone                 string
	SnapshotID, SourceID string
	Metadata             map[string]string
	UserID, ProjectID    string
	Created, Updated     time.Time
	Attachment           Attachment
}

// set changes the status of a volume.
func (v *Volume) set(status string) { v.Status, v.Updated = status, time.Now() }

// volume returns a volume, or the error 404.
func (s *Service) volume(id string) (*Volume, error) {
	volume, found := s.volumes[id]
	if !found {
		return nil, rest.NotFound("Volume %s could not be found.", id)
	}
	return volume, nil
}

func (s *Service) showVolume(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volume(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	return rest.Answer{Content: map[string]any{"volume": describe(r, volume)}}, nil
}

func (s *Service) deleteVolume(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volume(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	deletable := volume.Attachment.ID == "" &&
		slices.Contains([]string{available, failed, errorExtending}, volume.Status)
	for _, snapshot := range s.snapshots {
		deletable = deletable && snapshot.VolumeID != volume.ID
	}
	if !deletable {
		return rest.Answer{}, rest.BadRequest("Invalid volume: Volume status must be available or " +
			"error or error_restoring or error_extending or error_managing and must not be migrating, " +
			"attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from " +
			"snapshots after volume transfer.")
	}
	volume.set(deleting)
	s.config.Worker.StartRemoval(s.afterCopies(volume.ID, r.Outcome),
		func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				volume.set(errorDeleting)
				return
			}
			delete(s.volumes, volume.ID)
		},
		func() error { return s.volumeData.Remove(volume.ID) })
	return rest.Answer{Status: http.StatusAccepted}, nil
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
	switch {
	case wanted.NewSize <= volume.Size:
		return rest.Answer{}, rest.BadRequest("Invalid input received: New size for extend must be "+
			"greater than current size. (current: %d, extended: %d).", volume.Size, wanted.NewSize)
	case volume.Status != expected:
		return rest.Answer{}, rest.BadRequest("Invalid volume: Volume %s status must be '{'status': "+
			"'%s'}' to extend, currently %s.", volume.ID, expected, volume.Status)
	}
	volume.set(extending)
	server := volume.Attachment.ServerID
	s.config.Worker.Start(r.Outcome,
		func(ctx context.Context) error { return s.extend(ctx, volume.ID, server, wanted.NewSize) },
		func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				volume.set(errorExtending)
				return
			}
			volume.Size = wanted.NewSize
			volume.set(expected)
		})
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// extend makes the file of a volume larger, and tells the server that it is attached to.
func (s *Service) extend(ctx context.Context, id, server string, size int) error {
	if err := s.volumeData.MakeFile(id, int64(size)*gibibyte); err != nil {
		return err
	}
	if server == "" || s.extended == nil {
		return nil
	}
	return s.extended(ctx, server, id)
}
