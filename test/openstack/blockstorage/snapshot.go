package blockstorage

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// Snapshot is the record of a snapshot.
type Snapshot struct {
	rest.Record

	VolumeID string
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
	volume, err := s.volumes.Find(wanted.VolumeID)
	if err != nil {
		return rest.Answer{}, err
	}
	statuses := []string{rest.Available}
	if wanted.Force || r.Version.AtLeast(66) {
		statuses = append(statuses, InUse)
	}
	if !slices.Contains(statuses, volume.Status) {
		return rest.Answer{}, rest.BadRequest("Invalid volume: Volume %s status must be %s, but current "+
			"status is: %s.", volume.ID, strings.Join(statuses, ", "), volume.Status)
	}
	if err := s.checkSnapshotQuotas(volume); err != nil {
		return rest.Answer{}, err
	}
	snapshot := &Snapshot{Record: r.NewRecord(), VolumeID: volume.ID}
	snapshot.Name, snapshot.Description, snapshot.Size = wanted.Name, wanted.Description, volume.Size
	snapshot.Metadata = wanted.Metadata
	content, _ := s.snapshots.Create(r, snapshot, func(ctx context.Context) error {
		return s.snapshots.Data.CopyFrom(ctx, s.volumes.Data, volume.ID, snapshot.ID)
	})
	return rest.Answer{Status: http.StatusAccepted, Content: content}, nil
}

func canDeleteSnapshot(snapshot *Snapshot) error {
	if snapshot.Status == rest.Available || snapshot.Status == rest.Failed {
		return nil
	}
	return rest.BadRequest("Invalid snapshot: Snapshot status must be available or error and must " +
		"not be part of a group.")
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
	if status == rest.Available {
		return "100%"
	}
	return "0%"
}

// summarizeSnapshot returns a snapshot in a list. The path of the list has no /detail, so two
// fields are missing.
func summarizeSnapshot(r *rest.Request, snapshot *Snapshot) map[string]any {
	description := describeSnapshot(r, snapshot)
	delete(description, "os-extended-snapshot-attributes:project_id")
	delete(description, "os-extended-snapshot-attributes:progress")
	return description
}
