//go:build linux

package sharedfilesystems

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
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
	shrinking            = "shrinking"
	shrinkingError       = "shrinking_error"
	wouldLoseData        = "shrinking_possible_data_loss_error"
)

// errDataLoss is the error of a share that contains more than its new size.
var errDataLoss = errors.New("the share contains more data than fits into its new size")

// errNetwork is the error of a share with a share network and a share type without share servers.
var errNetwork = errors.New("the share type does not expect a share network")

// Share is the record of a share.
type Share struct {
	ID, Name, Description, Status string
	Protocol, Zone                string
	// Size is in GiB, and NewSize while it is extended or shrunk.
	Size, NewSize         int
	TypeID, TypeName      string
	SnapshotID, NetworkID string
	// Snapshots and the following are capabilities of the share type.
	Snapshots, Creation, Revert, Mount bool
	// Misplaced shares have a share network that their share type does not expect.
	Misplaced         bool
	Public            bool
	Metadata          map[string]string
	UserID, ProjectID string
	Created           time.Time
	Rules             []Rule
}

// continueShare starts the operation that the status of a share names.
func (s *Service) continueShare(share Share, outcome state.Outcome) {
	switch share.Status {
	case creating, creatingFromSnapshot:
		done := s.config.Worker.Start(outcome,
			func(ctx context.Context) error { return s.makeShare(ctx, share) },
			s.completion(share.ID, func(v *Share, err error) {
				if v.Status = available; err != nil {
					v.Status = failed
				}
			}))
		s.copies[share.SnapshotID] = append(s.copies[share.SnapshotID], done)
	case deleting:
		s.config.Worker.StartRemoval(outcome,
			func(err error) error {
				if err != nil {
					return s.completion(share.ID, func(v *Share, _ error) { v.Status = errorDeleting })(err)
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.shares.Delete(share.ID)
			},
			func() error { return s.shareData.Remove(share.ID) })
	case extending, shrinking:
		s.config.Worker.Start(outcome,
			func(context.Context) error { return s.checkSize(share) },
			s.completion(share.ID, func(v *Share, err error) {
				switch {
				case err == nil:
					v.Status, v.Size = available, v.NewSize
				case errors.Is(err, errDataLoss):
					v.Status = wouldLoseData
				case v.Status == extending:
					v.Status = extendingError
				default:
					v.Status = shrinkingError
				}
				v.NewSize = 0
			}))
	}
}

// makeShare creates the folder of a share.
func (s *Service) makeShare(ctx context.Context, share Share) error {
	switch {
	case share.Misplaced:
		return errNetwork
	case share.SnapshotID != "":
		return s.shareData.CopyFrom(ctx, s.snapshotData, share.SnapshotID, share.ID)
	}
	return s.shareData.MakeFolder(share.ID)
}

// checkSize returns errDataLoss if a share contains more than its new size.
func (s *Service) checkSize(share Share) error {
	used, err := s.shareData.Used(share.ID)
	if err == nil && used > int64(share.NewSize)*gibibyte {
		err = errDataLoss
	}
	return err
}

// completion returns a function that changes the record of a share after an operation, and adds a
// message if the operation failed.
func (s *Service) completion(id string, change func(*Share, error)) func(error) error {
	return func(failure error) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		share, found := s.shares.Get(id)
		if !found {
			return nil
		}
		before := share.Status
		share.Rules = slices.Clone(share.Rules)
		change(&share, failure)
		err := s.shares.Put(id, share)
		if failure != nil && err == nil {
			err = s.addMessage(share.ProjectID, "SHARE", id, before, failure)
		}
		return err
	}
}

// change changes the record of a share.
func (s *Service) change(id string, change func(*Share)) error {
	share, err := s.share(id)
	if err != nil {
		return err
	}
	share.Rules = slices.Clone(share.Rules)
	change(&share)
	return s.shares.Put(id, share)
}

// share returns a record, or the error 404.
func (s *Service) share(id string) (Share, error) {
	share, found := s.shares.Get(id)
	if !found {
		return Share{}, rest.NotFound("Share %s could not be found.", id)
	}
	return share, nil
}

func (s *Service) showShare(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	share, found := s.shares.Get(r.PathValue("id"))
	if !found {
		return rest.Answer{}, rest.NotFound("")
	}
	return rest.Answer{Content: map[string]any{"share": describeShare(r, share)}}, nil
}

func (s *Service) deleteShare(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	share, found := s.shares.Get(r.PathValue("id"))
	if !found {
		return rest.Answer{}, rest.NotFound("")
	}
	if !slices.Contains([]string{available, failed, "inactive"}, share.Status) {
		return rest.Answer{}, rest.Forbidden("Invalid share: Share status must be one of ('available', " +
			"'error', 'inactive').")
	}
	snapshots := rest.Filter(s.snapshots.List(),
		func(snapshot Snapshot) bool { return snapshot.ShareID == share.ID })
	if len(snapshots) > 0 {
		return rest.Answer{}, rest.Forbidden("Invalid share: Share still has %d dependent snapshots..",
			len(snapshots))
	}
	err := s.change(share.ID, func(v *Share) { v.Status, share.Status = deleting, deleting })
	if err != nil {
		return rest.Answer{}, err
	}
	s.continueShare(share, r.Outcome)
	return rest.Answer{Status: http.StatusAccepted}, nil
}
