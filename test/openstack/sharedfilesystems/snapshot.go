package sharedfilesystems

import (
	"context"
	"net/http"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// Snapshot is the record of a snapshot of a share.
type Snapshot struct {
	rest.Record

	ShareID, Protocol string
}

func (s *Service) createSnapshot(r *rest.Request) (rest.Answer, error) {
	var wanted struct {
		ShareID     string `json:"share_id"`
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	if err := decode(r, "snapshot", &wanted); err != nil {
		return rest.Answer{}, err
	}
	share, err := s.share(wanted.ShareID)
	switch {
	case err != nil:
		return rest.Answer{}, err
	case share.Status != rest.Available:
		return rest.Answer{}, rest.BadRequest(
			"Invalid share: Source share status must be available.")
	}
	if err := s.checkSnapshotQuotas(share); err != nil {
		return rest.Answer{}, err
	}
	snapshot := &Snapshot{Record: r.NewRecord(), ShareID: share.ID, Protocol: share.Protocol}
	snapshot.Name, snapshot.Description, snapshot.Size = wanted.Name, wanted.Description, share.Size
	content, _ := s.snapshots.Create(r, snapshot, func(ctx context.Context) error {
		return s.snapshots.Data.CopyFrom(ctx, s.shares.Data, share.ID, snapshot.ID)
	})
	return rest.Answer{Status: http.StatusAccepted, Content: content}, nil
}

func unprocessable(message string) error {
	return &rest.Error{Status: http.StatusUnprocessableEntity, Message: message}
}

func canDeleteSnapshot(snapshot *Snapshot) error {
	if snapshot.Status == rest.Available || snapshot.Status == rest.Failed {
		return nil
	}
	return rest.BadRequest("Invalid share snapshot: Share Snapshot status must be one of " +
		"('available', 'error')..")
}

// describeSnapshot returns a snapshot with the fields of the microversion; API reference: Show
// share snapshot details.
func describeSnapshot(r *rest.Request, snapshot *Snapshot) map[string]any {
	description := map[string]any{
		"id": snapshot.ID, "share_id": snapshot.ShareID, "share_size": snapshot.Size,
		"created_at": rest.Time(snapshot.Created), "status": snapshot.Status,
		"name": rest.Optional(snapshot.Name), "description": rest.Optional(snapshot.Description),
		"size": snapshot.Size, "share_proto": snapshot.Protocol,
		"links": r.Links("snapshots", snapshot.ID),
	}
	if r.Version.AtLeast(17) {
		description["user_id"], description["project_id"] = snapshot.UserID, snapshot.ProjectID
	}
	if r.Version.AtLeast(73) {
		description["metadata"] = map[string]string{}
	}
	return description
}
