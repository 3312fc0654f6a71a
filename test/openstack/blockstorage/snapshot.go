//go:build linux

package blockstorage

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
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
	snapshot := &Snapshot{
		ID: newID(), Name: wanted.Name, Description: wanted.Description, Status: creating,
		VolumeID: volume.ID, Size: volume.Size, Metadata: wanted.Metadata, UserID: r.UserID,
		ProjectID: r.ProjectID, Created: time.Now(),
	}
	s.snapshots[snapshot.ID] = snapshot
	s.config.Worker.Start(r.Outcome,
		func(ctx context.Context) error {
			return s.snapshotData.CopyFrom(ctx, s.volumeData, volume.ID, snapshot.ID)
		},
		func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			snapshot.set(available)
			if err != nil {
				snapshot.set(failed)
			}
		})
	content := map[string]any{"snapshot": describeSnapshot(r, snapshot)}
	return rest.Answer{Status: http.StatusAccepted, Content: content}, nil
}

// set changes the status of a snapshot.
func (s *Snapshot) set(status string) { s.Status, s.Updated = status, time.Now() }

// snapshot returns a snapshot, or the error 404.
func (s *Service) snapshot(id string) (*Snapshot, error) {
	snapshot, found := s.snapshots[id]
	if !found {
		return nil, rest.NotFound("Snapshot %s could not be found.", id)
	}
	return snapshot, nil
}

func (s *Service) showSnapshot(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot, err := s.snapshot(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	return rest.Answer{Content: map[string]any{"snapshot": describeSnapshot(r, snapshot)}}, nil
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
	snapshot.set(deleting)
	s.config.Worker.StartRemoval(s.afterCopies(snapshot.ID, r.Outcome),
		func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				snapshot.set(errorDeleting)
				return
			}
			delete(s.snapshots, snapshot.ID)
		},
		func() error { return s.snapshotData.Remove(snapshot.ID) })
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// describeSnapshot returns a snapshot with the fields of the microversion; API reference: Show a
// snapshot's details.
func describeSnapshot(r *rest.Request, snapshot *Snapshot) map[string]any {
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

// listSnapshots answers with the snapshots of a page. The path has no /detail, so two fields are
// missing.
func (s *Service) listSnapshots(r *rest.Request) (rest.Answer, error) {
	if err := checkFilters(r, "name", "status", "volume_id"); err != nil {
		return rest.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return rest.Collection[*Snapshot]{
		Name: "snapshots", Links: "snapshots_links",
		Keep: func(snapshot *Snapshot) bool {
			return r.Matches("name", snapshot.Name) && r.Matches("status", snapshot.Status) &&
				r.Matches("volume_id", snapshot.VolumeID)
		},
		Created: func(snapshot *Snapshot) time.Time { return snapshot.Created },
		Describe: func(snapshot *Snapshot) map[string]any {
			description := describeSnapshot(r, snapshot)
			delete(description, "os-extended-snapshot-attributes:project_id")
			delete(description, "os-extended-snapshot-attributes:progress")
			return description
		},
		Missing: func(marker string) error {
			return rest.NotFound("Snapshot %s could not be found.", marker)
		},
	}.Answer(r, s.snapshots)
}
