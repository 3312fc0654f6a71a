//go:build linux

package sharedfilesystems

import (
	"context"
	"net/http"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// The states of shares and snapshots that the simulator uses.
const (
	creating             = "creating"
	creatingFromSnapshot = "creating_from_snapshot"
	available            = "available"
	deleting             = "deleting"
	failed               = "error"
	errorDeleting        = "error_deleting"
	extending            = "extending"
	extendingError       = "extending_error"
)

// Share is the record of a share.
type Share struct {
	ID, Name, Description, Status string
	Protocol, Zone                string
	// Size is in GiB.
	Size              int
	TypeID, TypeName  string
	SnapshotID        string
	Public            bool
	Metadata          map[string]string
	UserID, ProjectID string
	Created           time.Time
	Rules             []*Rule
}

// completion returns a function that sets the status of a share, of a snapshot or of an access rule
// after an operation.
func (s *Service) completion(status *string, success, failure string) func(error) {
	return func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if *status = success; err != nil {
			*status = failure
		}
	}
}

// share returns a share, or the error 404.
func (s *Service) share(id string) (*Share, error) {
	share, found := s.shares[id]
	if !found {
		return nil, rest.NotFound("Share %s could not be found.", id)
	}
	return share, nil
}

func (s *Service) showShare(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	share, found := s.shares[r.PathValue("id")]
	if !found {
		return rest.Answer{}, rest.NotFound("")
	}
	return rest.Answer{Content: map[string]any{"share": describeShare(r, share)}}, nil
}

func (s *Service) deleteShare(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	share, found := s.shares[r.PathValue("id")]
	if !found {
		return rest.Answer{}, rest.NotFound("")
	}
	if share.Status != available && share.Status != failed {
		return rest.Answer{}, rest.Forbidden("Invalid share: Share status must be one of ('available', " +
			"'error', 'inactive').")
	}
	snapshots := 0
	for _, snapshot := range s.snapshots {
		if snapshot.ShareID == share.ID {
			snapshots++
		}
	}
	if snapshots > 0 {
		return rest.Answer{}, rest.Forbidden("Invalid share: Share still has %d dependent snapshots..",
			snapshots)
	}
	share.Status = deleting
	s.config.Worker.StartRemoval(r.Outcome,
		func(err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err != nil {
				share.Status = errorDeleting
				return
			}
			delete(s.shares, share.ID)
		},
		func() error { return s.shareData.Remove(share.ID) })
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// extend begins to extend a share.
func (s *Service) extend(r *rest.Request, action string) (rest.Answer, error) {
	var wanted struct {
		NewSize int `json:"new_size"`
	}
	if err := r.Decode(action, &wanted); err != nil || wanted.NewSize == 0 {
		return rest.Answer{}, rest.BadRequest("New share size must be specified as an integer.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	share, err := s.share(r.PathValue("id"))
	switch {
	case err != nil:
		return rest.Answer{}, err
	case share.Status != available:
		return rest.Answer{}, rest.BadRequest("Invalid share: Share %s status must be 'available' to "+
			"extend, but current status is: %s..", share.ID, share.Status)
	case wanted.NewSize <= share.Size:
		return rest.Answer{}, rest.BadRequest("Invalid input received: New size for extend must be "+
			"greater than current size. (current: %d, extended: %d)..", share.Size, wanted.NewSize)
	}
	share.Status = extending
	s.config.Worker.Start(r.Outcome, func(context.Context) error { return nil }, func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			share.Status = extendingError
			return
		}
		share.Status, share.Size = available, wanted.NewSize
	})
	return rest.Answer{Status: http.StatusAccepted}, nil
}
