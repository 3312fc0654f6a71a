//go:build linux

package blockstorage

import (
	"context"
	"net/http"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Backup is the record of a backup. A backup is always complete, never incremental.
type Backup struct {
	ID, Name, Description, Status string
	VolumeID, SnapshotID          string
	Zone, Container, FailReason   string
	// Size is in GiB.
	Size              int
	Metadata          map[string]string
	UserID, ProjectID string
	// Data is when the data was saved.
	Created, Updated, Data time.Time
}

// backupRequest is the body of a request for a backup; API reference: Create a backup.
type backupRequest struct {
	VolumeID    string            `json:"volume_id"`
	SnapshotID  string            `json:"snapshot_id"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Container   string            `json:"container"`
	Zone        string            `json:"availability_zone"`
	Force       bool              `json:"force"`
	Incremental bool              `json:"incremental"`
	Metadata    map[string]string `json:"metadata"`
}

func (s *Service) createBackup(r *rest.Request) (rest.Answer, error) {
	var wanted backupRequest
	if err := r.Decode("backup", &wanted); err != nil {
		return rest.Answer{}, err
	}
	if !r.Version.AtLeast(43) {
		wanted.Metadata = nil
	}
	if !r.Version.AtLeast(51) {
		wanted.Zone = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volume(wanted.VolumeID)
	if err != nil {
		return rest.Answer{}, err
	}
	saved := s.config.Now()
	if wanted.SnapshotID != "" {
		snapshot, err := s.snapshotToBackUp(volume, wanted.SnapshotID)
		if err != nil {
			return rest.Answer{}, err
		}
		saved = snapshot.Created
	} else if err := canBackUp(volume, wanted); err != nil {
		return rest.Answer{}, err
	}
	if err := s.checkQuota(quotaRequest{backups: 1, backupGigabytes: volume.Size}); err != nil {
		return rest.Answer{}, err
	}
	backup := Backup{
		ID: newID(), Name: wanted.Name, Description: wanted.Description, Status: creating,
		VolumeID: volume.ID, SnapshotID: wanted.SnapshotID, Zone: wanted.Zone, Size: volume.Size,
		Container: wanted.Container, Metadata: wanted.Metadata, UserID: r.UserID,
		ProjectID: r.ProjectID, Created: s.config.Now(), Data: saved,
	}
	if err := s.startBackup(backup); err != nil {
		return rest.Answer{}, err
	}
	s.continueBackup(backup, r.Outcome)
	return rest.Answer{Status: http.StatusAccepted, Content: map[string]any{
		"backup": r.Summary("backups", backup.ID, backup.Name),
	}}, nil
}

// snapshotToBackUp returns a snapshot of a volume that can be backed up.
func (s *Service) snapshotToBackUp(volume Volume, id string) (Snapshot, error) {
	snapshot, err := s.snapshot(id)
	switch {
	case err != nil:
		return Snapshot{}, err
	case snapshot.VolumeID != volume.ID:
		return Snapshot{}, rest.BadRequest("Invalid volume: Volume %s does not match with "+
			"snapshot.volume_id %s.", volume.ID, snapshot.VolumeID)
	case snapshot.Status != available:
		return Snapshot{}, rest.BadRequest("Invalid snapshot: Snapshot to be backed up must be "+
			"available, but the current status is \"%s\".", snapshot.Status)
	}
	return snapshot, nil
}

// canBackUp returns an error if a volume cannot be backed up in its state.
func canBackUp(volume Volume, wanted backupRequest) error {
	switch {
	case wanted.Incremental:
		return rest.BadRequest("Invalid backup: No backups available to do an incremental backup.")
	case volume.Status != available && volume.Status != inUse:
		return rest.BadRequest("Invalid volume: Volume to be backed up must be available or in-use, but "+
			"the current status is \"%s\".", volume.Status)
	case volume.Status == inUse && !wanted.Force:
		return rest.BadRequest("Invalid volume: Backing up an in-use volume must use the force flag.")
	}
	return nil
}

// startBackup writes the record of a backup and the status of its source.
func (s *Service) startBackup(backup Backup) error {
	if err := s.backups.Put(backup.ID, backup); err != nil {
		return err
	}
	if backup.SnapshotID != "" {
		return s.setSnapshotStatus(backup.SnapshotID, backingUp)
	}
	return s.changeVolume(backup.VolumeID, func(v *Volume) {
		v.Previous, v.Status = v.Status, backingUp
	})
}

// continueBackup starts the operation that the status of a backup names.
func (s *Service) continueBackup(backup Backup, outcome state.Outcome) {
	switch backup.Status {
	case creating:
		s.config.Worker.Start(outcome,
			func(ctx context.Context) error {
				if backup.SnapshotID != "" {
					return s.backupData.CopyFrom(ctx, s.snapshotData, backup.SnapshotID, backup.ID)
				}
				return s.backupData.CopyFrom(ctx, s.volumeData, backup.VolumeID, backup.ID)
			},
			func(err error) error { return s.completeBackup(backup, err) })
	case deleting:
		s.config.Worker.StartRemoval(s.afterCopies(backup.ID, outcome),
			func(err error) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if err != nil {
					return s.setBackupStatus(backup.ID, errorDeleting, err)
				}
				return s.backups.Delete(backup.ID)
			},
			func() error { return s.backupData.Remove(backup.ID) })
	}
}

// completeBackup sets the status of a new backup and of its source.
func (s *Service) completeBackup(backup Backup, failure error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if backup.SnapshotID != "" {
		err = s.setSnapshotStatus(backup.SnapshotID, available)
	} else {
		err = s.changeVolume(backup.VolumeID, func(v *Volume) {
			if v.Status == backingUp { // a crash may have prevented this status
				v.Status, v.Previous = v.Previous, ""
			}
		})
	}
	if err != nil {
		return err
	}
	if failure != nil {
		return s.setBackupStatus(backup.ID, failed, failure)
	}
	return s.setBackupStatus(backup.ID, available, nil)
}

func (s *Service) setBackupStatus(id, status string, reason error) error {
	backup, found := s.backups.Get(id)
	if !found {
		return nil
	}
	backup.Status, backup.Updated = status, s.config.Now()
	if reason != nil {
		backup.FailReason = reason.Error()
	}
	return s.backups.Put(id, backup)
}

// backup returns a record, or the error 404.
func (s *Service) backup(id string) (Backup, error) {
	backup, found := s.backups.Get(id)
	if !found {
		return Backup{}, rest.NotFound("Backup %s could not be found.", id)
	}
	return backup, nil
}

func (s *Service) showBackup(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	backup, err := s.backup(r.PathValue("id"))
	return rest.Answer{Content: map[string]any{"backup": describeBackup(r, backup)}}, err
}

func (s *Service) deleteBackup(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	backup, err := s.backup(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	if backup.Status != available && backup.Status != failed {
		return rest.Answer{}, rest.BadRequest(
			"Invalid backup: Backup status must be available or error")
	}
	if err := s.setBackupStatus(backup.ID, deleting, nil); err != nil {
		return rest.Answer{}, err
	}
	backup.Status = deleting
	s.continueBackup(backup, r.Outcome)
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// describeBackup returns a backup with the fields of the microversion; API reference: Show backup
// detail.
func describeBackup(r *rest.Request, backup Backup) map[string]any {
	description := map[string]any{
		"id": backup.ID, "status": backup.Status, "size": backup.Size, "object_count": 0,
		"availability_zone": rest.Optional(backup.Zone), "container": rest.Optional(backup.Container),
		"created_at": rest.Time(backup.Created), "updated_at": rest.Time(backup.Updated),
		"name": rest.Optional(backup.Name), "description": rest.Optional(backup.Description),
		"fail_reason": rest.Optional(backup.FailReason), "volume_id": backup.VolumeID,
		"links": r.Links("backups", backup.ID), "is_incremental": false,
		"has_dependent_backups": false, "snapshot_id": rest.Optional(backup.SnapshotID),
		"data_timestamp": rest.Time(backup.Data),
	}
	if r.Version.AtLeast(43) {
		description["metadata"] = rest.Metadata(backup.Metadata)
	}
	return description
}

func (s *Service) listBackups(r *rest.Request) (rest.Answer, error) {
	if err := checkFilters(r, "name", "status", "volume_id"); err != nil {
		return rest.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	backups := rest.Filter(s.backups.List(), func(backup Backup) bool {
		return r.Matches("name", backup.Name) && r.Matches("status", backup.Status) &&
			r.Matches("volume_id", backup.VolumeID)
	})
	return rest.Collection[Backup]{
		Name: "backups", Links: "backups_links",
		ID:       func(backup Backup) string { return backup.ID },
		Created:  func(backup Backup) time.Time { return backup.Created },
		Describe: func(backup Backup) map[string]any { return describeBackup(r, backup) },
		Summarize: func(backup Backup) map[string]any {
			return r.Summary("backups", backup.ID, backup.Name)
		},
		Missing: func(marker string) error {
			return rest.NotFound("Backup %s could not be found.", marker)
		},
	}.Answer(r, backups)
}
