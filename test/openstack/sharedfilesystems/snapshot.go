//go:build linux

package sharedfilesystems

import (
	"context"
	"net/http"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// Snapshot is the record of a snapshot of a share.
type Snapshot struct {
	ID, Name, Description, Status string
	ShareID, Protocol             string
	// Size is in GiB.
	Size              int
	UserID, ProjectID string
	Created           time.Time
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
	s.mu.Lock()
	defer s.mu.Unlock()
	share, err := s.share(wanted.ShareID)
	switch {
	case err != nil:
		return rest.Answer{}, err
	case share.Status != available:
		return rest.Answer{}, rest.BadRequest(
			"Invalid share: Source share status must be available.")
	}
	snapshot := &Snapshot{
		ID: newID(), Name: wanted.Name, Description: wanted.Description, Status: creating,
		ShareID: share.ID, Protocol: share.Protocol, Size: share.Size, UserID: r.UserID,
		ProjectID: r.ProjectID, Created: time.Now(),
	}
	s.snapshots[snapshot.ID] = snapshot
	s.config.Worker.Start(r.Outcome,
		func(ctx context.Context) error {
			return s.snapshotData.CopyFrom(ctx, s.shareData, share.ID, snapshot.ID)
		},
		s.completion(&snapshot.Status, available, failed))
	content := map[string]any{"snapshot": describeSnapshot(r, snapshot)}
	return rest.Answer{Status: http.StatusAccepted, Content: content}, nil
}

// unprocessable returns an error with status 422.
func unprocessable(message string) error {
	return &rest.Error{Status: http.StatusUnprocessableEntity, Message: message}
}

func (s *Service) showSnapshot(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot, found := s.snapshots[r.PathValue("id")]
	if !found {
		return rest.Answer{}, rest.NotFound("")
	}
	return rest.Answer{Content: map[string]any{"snapshot": describeSnapshot(r, snapshot)}}, nil
}

func (s *Service) deleteSnapshot(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot, found := s.snapshots[r.PathValue("id")]
	if !found {
		return rest.Answer{}, rest.NotFound("")
	}
	if snapshot.Status != available && snapshot.Status != failed {
		return rest.Answer{}, rest.BadRequest("Invalid share snapshot: Share Snapshot status must be " +
			"one of ('available', 'error')..")
	}
	snapshot.Status = deleting
	outcome := r.Outcome
	outcome.Held = append(outcome.Held, s.copies[snapshot.ID]...)
	delete(s.copies, snapshot.ID)
	s.config.Worker.StartRemoval(outcome,
		func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				snapshot.Status = errorDeleting
				return
			}
			delete(s.snapshots, snapshot.ID)
		},
		func() error { return s.snapshotData.Remove(snapshot.ID) })
	return rest.Answer{Status: http.StatusAccepted}, nil
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

func (s *Service) listSnapshots(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return rest.Collection[*Snapshot]{
		Name: "snapshots", Links: "share_snapshots_links", NextPath: "/snapshots",
		Keep: func(snapshot *Snapshot) bool {
			return r.Matches("name", snapshot.Name) && r.Matches("status", snapshot.Status) &&
				r.Matches("share_id", snapshot.ShareID)
		},
		Created:  func(snapshot *Snapshot) time.Time { return snapshot.Created },
		Describe: func(snapshot *Snapshot) map[string]any { return describeSnapshot(r, snapshot) },
	}.Answer(r, s.snapshots)
}
