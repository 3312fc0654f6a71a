//go:build linux

package blockstorage

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Snapshot is the record of a snapshot.
type Snapshot struct {
	ID, Name, Description, Status string
	VolumeID                      string
	// Size is in GiB.
	Size              int
	Metadata          map[string]string
	UserID, ProjectID string
	Created, Updated  time.Time
}

func (s *Service) createSnapshot(r *rest.Request) (rest.Answer, error) {
	var wanted struct {
		VolumeID    string            `json:"volume_id"`
		Name        string            `json:"name"`
		Description string            `json:"description"`
		Force       bool              `json:"force"`
		Metadata    map[string]string `json:"metadata"`
	}
	if err := r.Decode("snapshot", &wanted); err != nil {
		return rest.Answer{}, err
	}
	if wanted.VolumeID == "" {
		return rest.Answer{}, rest.BadRequest("Invalid input for field/attribute snapshot. " +
			"'volume_id' is a required property")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	volume, err := s.volume(wanted.VolumeID)
	if err != nil {
		return rest.Answer{}, err
	}
	statuses := []string{available}
	if wanted.Force || r.Version.AtLeast(66) {
		statuses = append(statuses, inUse)
	}
	if !slices.Contains(statuses, volume.Status) {
		return rest.Answer{}, rest.BadRequest("Invalid volume: Volume %s status must be %s, but current "+
			"status is: %s.", volume.ID, strings.Join(statuses, ", "), volume.Status)
	}
	err = s.checkQuota(quotaRequest{snapshots: 1, gigabytes: volume.Size})
	if err != nil {
		return rest.Answer{}, err
	}
	snapshot := Snapshot{
		ID: newID(), Name: wanted.Name, Description: wanted.Description, Status: creating,
		VolumeID: volume.ID, Size: volume.Size, Metadata: wanted.Metadata, UserID: r.UserID,
		ProjectID: r.ProjectID, Created: s.config.Now(),
	}
	if err := s.snapshots.Put(snapshot.ID, snapshot); err != nil {
		return rest.Answer{}, err
	}
	s.continueSnapshot(snapshot, r.Outcome)
	content := map[string]any{"snapshot": describeSnapshot(r, snapshot)}
	return rest.Answer{Status: http.StatusAccepted, Content: content}, nil
}

// continueSnapshot starts the operation that the status of a snapshot names.
func (s *Service) continueSnapshot(snapshot Snapshot, outcome state.Outcome) {
	switch snapshot.Status {
	case creating:
		s.config.Worker.Start(outcome,
			func(ctx context.Context) error {
				return s.snapshotData.CopyFrom(ctx, s.volumeData, snapshot.VolumeID, snapshot.ID)
			},
			func(err error) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if err != nil {
					return s.setSnapshotStatus(snapshot.ID, failed)
				}
				return s.setSnapshotStatus(snapshot.ID, available)
			})
	case deleting:
		s.config.Worker.StartRemoval(s.afterCopies(snapshot.ID, outcome),
			func(err error) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				if err != nil {
					return s.setSnapshotStatus(snapshot.ID, errorDeleting)
				}
				return s.snapshots.Delete(snapshot.ID)
			},
			func() error { return s.snapshotData.Remove(snapshot.ID) })
	}
}

// setSnapshotStatus changes a record; a snapshot that does not exist any more is no error.
func (s *Service) setSnapshotStatus(id, status string) error {
	snapshot, found := s.snapshots.Get(id)
	if !found {
		return nil
	}
	snapshot.Status, snapshot.Updated = status, s.config.Now()
	return s.snapshots.Put(id, snapshot)
}

// snapshot returns a record, or the error 404.
func (s *Service) snapshot(id string) (Snapshot, error) {
	snapshot, found := s.snapshots.Get(id)
	if !found {
		return Snapshot{}, rest.NotFound("Snapshot %s could not be found.", id)
	}
	return snapshot, nil
}

func (s *Service) showSnapshot(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot, err := s.snapshot(r.PathValue("id"))
	content := map[string]any{"snapshot": describeSnapshot(r, snapshot)}
	return rest.Answer{Content: content}, err
}

func (s *Service) deleteSnapshot(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot, err := s.snapshot(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	if snapshot.Status != available && snapshot.Status != failed {
		return rest.Answer{}, rest.BadRequest("Invalid snapshot: Snapshot status must be available or " +
			"error and must not be part of a group.")
	}
	if err := s.setSnapshotStatus(snapshot.ID, deleting); err != nil {
		return rest.Answer{}, err
	}
	snapshot.Status = deleting
	s.continueSnapshot(snapshot, r.Outcome)
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// describeSnapshot returns a snapshot with the fields of the microversion; API reference: Show a
// snapshot's details.
func describeSnapshot(r *rest.Request, snapshot Snapshot) map[string]any {
	description := map[string]any{
		"id": snapshot.ID, "created_at": rest.Time(snapshot.Created),
		"updated_at": rest.Time(snapshot.Updated), "name": rest.Optional(snapshot.Name),
		"description": rest.Optional(snapshot.Description), "volume_id": snapshot.VolumeID,
		"status": snapshot.Status, "size": snapshot.Size, "metadata": rest.Metadata(snapshot.Metadata),
		"os-extended-snapshot-attributes:project_id": snapshot.ProjectID,
		"os-extended-snapshot-attributes:progress":   progress(snapshot.Status),
	}
	if r.Version.AtLeast(14) {
		description["group_snapshot_id"] = nil
	}
	if r.Version.AtLeast(41) {
		description["user_id"] = snapshot.UserID
	}
	if r.Version.AtLeast(65) {
		description["consumes_quota"] = true
	}
	return description
}

func progress(status string) string {
	if status == available {
		return "100%"
	}
	return "0%"
}

func (s *Service) listSnapshots(r *rest.Request) (rest.Answer, error) {
	err := checkFilters(r, "availability_zone", "metadata", "name", "size", "status", "volume_id")
	if err != nil {
		return rest.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshots := rest.Filter(s.snapshots.List(), func(snapshot Snapshot) bool {
		return r.Matches("name", snapshot.Name) && r.Matches("status", snapshot.Status) &&
			r.Matches("volume_id", snapshot.VolumeID) &&
			(!r.Version.AtLeast(31) || r.Matches("size", strconv.Itoa(snapshot.Size))) &&
			(!r.Version.AtLeast(22) ||
				rest.Contains(snapshot.Metadata, rest.Keywords(r.URL.Query().Get("metadata"))))
	})
	return rest.Collection[Snapshot]{
		Name: "snapshots", Links: "snapshots_links",
		ID:       func(snapshot Snapshot) string { return snapshot.ID },
		Created:  func(snapshot Snapshot) time.Time { return snapshot.Created },
		Describe: func(snapshot Snapshot) map[string]any { return describeSnapshot(r, snapshot) },
		Summarize: func(snapshot Snapshot) map[string]any {
			description := describeSnapshot(r, snapshot)
			delete(description, "os-extended-snapshot-attributes:project_id")
			delete(description, "os-extended-snapshot-attributes:progress")
			return description
		},
		Missing: func(marker string) error {
			return rest.NotFound("Snapshot %s could not be found.", marker)
		},
	}.Answer(r, snapshots)
}
