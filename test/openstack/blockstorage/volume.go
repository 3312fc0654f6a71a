//go:build linux

package blockstorage

import (
	"context"
	"net/http"
	"slices"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// The states that only volumes have.
const (
	errorExtending = "error_extending"
	reserved       = "reserved"
	inUse          = "in-use"
	detaching      = "detaching"
)

// Volume is the record of a volume.
type Volume struct {
	rest.Record

	Type, Zone           string
	SnapshotID, SourceID string
	Attachment           Attachment
}

// canDelete returns the error of a volume that must stay.
func (s *Service) canDelete(volume *Volume) error {
	ofVolume := func(snapshot *Snapshot) bool { return snapshot.VolumeID == volume.ID }
	if volume.Attachment.ID == "" && s.snapshots.Count(ofVolume) == 0 &&
		slices.Contains([]string{rest.Available, rest.Failed, errorExtending}, volume.Status) {
		return nil
	}
	return rest.BadRequest("Invalid volume: Volume status must be available or error or " +
		"error_restoring or error_extending or error_managing and must not be migrating, attached, " +
		"belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots " +
		"after volume transfer.")
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
	volume, err := s.volumes.Find(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	expected := rest.Available
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
	volume.Set(rest.Extending)
	server := volume.Attachment.ServerID
	s.volumes.Start(r, volume, rest.Operation{
		Work: func(ctx context.Context) error {
			return s.extend(ctx, volume.ID, server, wanted.NewSize)
		},
		Success: expected, Failure: errorExtending, Size: wanted.NewSize,
	})
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// extend makes the file of a volume larger, and tells the server that it is attached to.
func (s *Service) extend(ctx context.Context, id, server string, size int) error {
	if err := s.volumes.Data.MakeFile(id, int64(size)*gibibyte); err != nil {
		return err
	}
	if server == "" || s.extended == nil {
		return nil
	}
	return s.extended(ctx, server, id)
}
