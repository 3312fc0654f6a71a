//go:build linux

package sharedfilesystems

import (
	"context"
	"net/http"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
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
	case !share.Snapshots:
		return rest.Answer{}, unprocessable("Snapshots cannot be created for share '" + share.ID +
			"' since it does not have that capability.")
	case share.Status != available:
		return rest.Answer{}, rest.BadRequest(
			"Invalid share: Source share status must be available.")
	}
	err = s.checkQuota(quotaRequest{snapshots: 1, snapshotGigabytes: share.Size})
	if err != nil {
		return rest.Answer{}, err
	}
	snapshot := Snapshot{
		ID: newID(), Name: wanted.Name, Description: wanted.Description, Status: creating,
		ShareID: share.ID, Protocol: share.Protocol, Size: share.Size, UserID: r.UserID,
		ProjectID: r.ProjectID, Created: s.config.Now(),
	}
	if err := s.snapshots.Put(snapshot.ID, snapshot); err != nil {
		return rest.Answer{}, err
	}
	s.continueSnapshot(snapshot, r.Outcome)
	content := map[string]any{"snapshot": describeSnapshot(r, snapshot)}
	return rest.Answer{Status: http.StatusAccepted, Content: content}, nil
}

// unprocessable returns an error with status 422.
func unprocessable(message string) error {
	return &rest.Error{Status: http.StatusUnprocessableEntity, Message: message}
}

// continueSnapshot starts the operation that the status of a snapshot names.
func (s *Service) continueSnapshot(snapshot Snapshot, outcome state.Outcome) {
	switch snapshot.Status {
	case creating:
		s.config.Worker.Start(outcome,
			func(ctx context.Context) error {
				return s.snapshotData.CopyFrom(ctx, s.shareData, snapshot.ShareID, snapshot.ID)
			},
			func(err error) error { return s.completeSnapshot(snapshot, available, failed, err) })
	case deleting:
		outcome.Held = append(outcome.Held, s.copies[snapshot.ID]...)
		delete(s.copies, snapshot.ID)
		s.config.Worker.StartRemoval(outcome,
			func(err error) error {
				if err == nil {
					return s.snapshots.Delete(snapshot.ID)
				}
				return s.completeSnapshot(snapshot, "", errorDeleting, err)
			},
			func() error { return s.snapshotData.Remove(snapshot.ID) })
	}
}

// completeSnapshot sets the status after an operation, and adds a message if it failed.
func (s *Service) completeSnapshot(
	snapshot Snapshot, success, failure string, err error,
) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := snapshot.Status
	if snapshot.Status = success; err != nil {
		snapshot.Status = failure
	}
	if err := s.snapshots.Put(snapshot.ID, snapshot); err != nil {
		return err
	}
	if err == nil {
		return nil
	}
	return s.addMessage(snapshot.ProjectID, "SHARE_SNAPSHOT", snapshot.ID, before, err)
}

func (s *Service) showSnapshot(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot, found := s.snapshots.Get(r.PathValue("id"))
	if !found {
		return rest.Answer{}, rest.NotFound("")
	}
	return rest.Answer{Content: map[string]any{"snapshot": describeSnapshot(r, snapshot)}}, nil
}

func (s *Service) deleteSnapshot(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot, found := s.snapshots.Get(r.PathValue("id"))
	if !found {
		return rest.Answer{}, rest.NotFound("")
	}
	if snapshot.Status != available && snapshot.Status != failed {
		return rest.Answer{}, rest.BadRequest("Invalid share snapshot: Share Snapshot status must be " +
			"one of ('available', 'error')..")
	}
	snapshot.Status = deleting
	if err := s.snapshots.Put(snapshot.ID, snapshot); err != nil {
		return rest.Answer{}, err
	}
	s.continueSnapshot(snapshot, r.Outcome)
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// describeSnapshot returns a snapshot with the fields of the microversion; API reference: Show
// share snapshot details.
func describeSnapshot(r *rest.Request, snapshot Snapshot) map[string]any {
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
	snapshots := rest.Filter(s.snapshots.List(), func(snapshot Snapshot) bool {
		return r.Matches("name", snapshot.Name) && r.Matches("status", snapshot.Status) &&
			r.Matches("share_id", snapshot.ShareID)
	})
	return rest.Collection[Snapshot]{
		Name: "snapshots", Links: "share_snapshots_links", NextPath: "/snapshots",
		ID:       func(snapshot Snapshot) string { return snapshot.ID },
		Created:  func(snapshot Snapshot) time.Time { return snapshot.Created },
		Describe: func(snapshot Snapshot) map[string]any { return describeSnapshot(r, snapshot) },
		Summarize: func(snapshot Snapshot) map[string]any {
			return r.Summary("snapshots", snapshot.ID, snapshot.Name)
		},
	}.Answer(r, snapshots)
}
