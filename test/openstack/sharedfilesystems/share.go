//go:build linux

package sharedfilesystems

import (
	"net/http"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// The states that only shares have.
const (
	creatingFromSnapshot = "creating_from_snapshot"
	extendingError       = "extending_error"
)

// Share is the record of a share.
type Share struct {
	rest.Record

	Protocol, Zone   string
	TypeID, TypeName string
	SnapshotID       string
	Public           bool
	Rules            []*Rule
}

// share returns a share, or an error 404 that names it.
func (s *Service) share(id string) (*Share, error) {
	share, err := s.shares.Find(id)
	if err != nil {
		return nil, rest.NotFound("Share %s could not be found.", id)
	}
	return share, nil
}

// canDelete returns the error of a share that must stay.
func (s *Service) canDelete(share *Share) error {
	if share.Status != rest.Available && share.Status != rest.Failed {
		return rest.Forbidden("Invalid share: Share status must be one of ('available', 'error', " +
			"'inactive').")
	}
	ofShare := func(snapshot *Snapshot) bool { return snapshot.ShareID == share.ID }
	if count := s.snapshots.Count(ofShare); count > 0 {
		return rest.Forbidden("Invalid share: Share still has %d dependent snapshots..", count)
	}
	return nil
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
	case share.Status != rest.Available:
		return rest.Answer{}, rest.BadRequest("Invalid share: Share %s status must be 'available' to "+
			"extend, but current status is: %s..", share.ID, share.Status)
	case wanted.NewSize <= share.Size:
		return rest.Answer{}, rest.BadRequest("Invalid input received: New size for extend must be "+
			"greater than current size. (current: %d, extended: %d)..", share.Size, wanted.NewSize)
	}
	share.Set(rest.Extending)
	s.shares.Start(r, share, rest.Operation{
		Success: rest.Available, Failure: extendingError, Size: wanted.NewSize,
	})
	return rest.Answer{Status: http.StatusAccepted}, nil
}
