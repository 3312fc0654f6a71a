//go:build linux

package blockstorage

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// The states of volumes, snapshots and backups that the simulator uses.
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
	backingUp      = "backing-up"
)

// Volume is the record of a volume.
type Volume struct {
	ID, Name, Description string
	Status                string
	// Size is in GiB, and NewSize while it is extended.
	Size, NewSize int
	// Previous is the status to which an extension or a backup returns.
	Previous                       string
	Zone, Type                     string
	Multiattach                    bool
	SnapshotID, SourceID, BackupID string
	Metadata                       map[string]string
	UserID, ProjectID              string
	Created, Updated               time.Time
	Attachments                    []Attachment
}

// continueVolume starts the operation that the status of a volume names.
func (s *Service) continueVolume(volume Volume, outcome state.Outcome) {
	switch volume.Status {
	case creating:
		source := cmp.Or(volume.SnapshotID, volume.SourceID, volume.BackupID)
		s.copies[source] = append(s.copies[source], s.config.Worker.Start(outcome,
			func(ctx context.Context) error { return s.makeVolume(ctx, volume) },
			s.completion(volume.ID, func(v *Volume, err error) {
				v.Status = available
				if err != nil {
					v.Status = failed
				}
			})))
	case deleting:
		s.config.Worker.StartRemoval(s.afterCopies(volume.ID, outcome),
			func(err error) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if err == nil {
					return s.volumes.Delete(volume.ID)
				}
				return s.changeVolume(volume.ID, func(v *Volume) { v.Status = errorDeleting })
			},
			func() error { return s.volumeData.Remove(volume.ID) })
	case extending:
		s.config.Worker.Start(outcome,
			func(ctx context.Context) error { return s.extend(ctx, volume) },
			s.completion(volume.ID, func(v *Volume, err error) {
				if v.Status = errorExtending; err == nil {
					v.Status, v.Size = v.Previous, v.NewSize
				}
				v.NewSize, v.Previous = 0, ""
			}))
	}
}

// makeVolume creates the file of a volume.
func (s *Service) makeVolume(ctx context.Context, volume Volume) error {
	var err error
	switch {
	case volume.SnapshotID != "":
		err = s.volumeData.CopyFrom(ctx, s.snapshotData, volume.SnapshotID, volume.ID)
	case volume.SourceID != "":
		err = s.volumeData.CopyFrom(ctx, s.volumeData, volume.SourceID, volume.ID)
	case volume.BackupID != "":
		err = s.volumeData.CopyFrom(ctx, s.backupData, volume.BackupID, volume.ID)
	}
	if err != nil {
		return err
	}
	return s.volumeData.MakeFile(volume.ID, int64(volume.Size)*gibibyte)
}

// completion returns a function that changes the record of a volume after an operation.
func (s *Service) completion(id string, change func(*Volume, error)) func(error) error {
	return func(err error) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.changeVolume(id, func(v *Volume) { change(v, err) })
	}
}

// changeVolume changes a record; a volume that does not exist any more is no error.
func (s *Service) changeVolume(id string, change func(*Volume)) error {
	volume, found := s.volumes.Get(id)
	if !found {
		return nil
	}
	volume.Attachments = slices.Clone(volume.Attachments)
	change(&volume)
	volume.Updated = s.config.Now()
	return s.volumes.Put(id, volume)
}

// volume returns a record, or the error 404.
func (s *Service) volume(id string) (Volume, error) {
	volume, found := s.volumes.Get(id)
	if !found {
		return Volume{}, rest.NotFound("Volume %s could not be found.", id)
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
	return rest.Answer{Content: map[string]any{"volume": s.describe(r, volume)}}, nil
}

func (s *Service) updateVolume(r *rest.Request) (rest.Answer, error) {
	var wanted struct {
		Name        *string           `json:"name"`
		Description *string           `json:"description"`
		Metadata    map[string]string `json:"metadata"`
	}
	if err := r.Decode("volume", &wanted); err != nil {
		return rest.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.volume(r.PathValue("id")); err != nil {
		return rest.Answer{}, err
	}
	err := s.changeVolume(r.PathValue("id"), func(v *Volume) {
		if wanted.Name != nil {
			v.Name = *wanted.Name
		}
		if wanted.Description != nil {
			v.Description = *wanted.Description
		}
		if wanted.Metadata != nil {
			v.Metadata = wanted.Metadata
		}
	})
	if err != nil {
		return rest.Answer{}, err
	}
	volume, err := s.volume(r.PathValue("id"))
	return rest.Answer{Content: map[string]any{"volume": s.describe(r, volume)}}, err
}

func (s *Service) deleteVolume(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volume(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	deletable := []string{available, failed, "error_restoring", errorExtending, "error_managing"}
	snapshots := slices.ContainsFunc(s.snapshots.List(),
		func(snapshot Snapshot) bool { return snapshot.VolumeID == volume.ID })
	if !slices.Contains(deletable, volume.Status) || len(volume.Attachments) > 0 || snapshots {
		return rest.Answer{}, rest.BadRequest("Invalid volume: Volume status must be available or " +
			"error or error_restoring or error_extending or error_managing and must not be migrating, " +
			"attached, belong to a group, have snapshots, awaiting a transfer, or be disassociated from " +
			"snapshots after volume transfer.")
	}
	err = s.changeVolume(volume.ID, func(v *Volume) { v.Status, volume.Status = deleting, deleting })
	if err != nil {
		return rest.Answer{}, err
	}
	s.continueVolume(volume, r.Outcome)
	return rest.Answer{Status: http.StatusAccepted}, nil
}

func (s *Service) showMetadata(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volume(r.PathValue("id"))
	return rest.Answer{Content: map[string]any{"metadata": rest.Metadata(volume.Metadata)}}, err
}

// updateMetadata adds metadata (POST) or replaces them (PUT).
func (s *Service) updateMetadata(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volume(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	metadata, err := r.NewMetadata(volume.Metadata)
	if err != nil {
		return rest.Answer{}, err
	}
	err = s.changeVolume(volume.ID, func(v *Volume) { v.Metadata = metadata })
	return rest.Answer{Content: map[string]any{"metadata": metadata}}, err
}
