//go:build linux

package sharedfilesystems

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
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

// shareRequest is the body of a request for a share; API reference: Create share.
type shareRequest struct {
	Protocol    string            `json:"share_proto"`
	Size        int               `json:"size"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Type        string            `json:"share_type"`
	SnapshotID  string            `json:"snapshot_id"`
	NetworkID   string            `json:"share_network_id"`
	Zone        string            `json:"availability_zone"`
	Public      bool              `json:"is_public"`
	Metadata    map[string]string `json:"metadata"`
}

func (s *Service) createShare(r *rest.Request) (rest.Answer, error) {
	var wanted shareRequest
	if err := r.Decode("share", &wanted); err != nil {
		return rest.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	share := Share{
		ID: newID(), Name: wanted.Name, Description: wanted.Description, Status: creating,
		Protocol: strings.ToUpper(wanted.Protocol), Zone: wanted.Zone, Size: wanted.Size,
		SnapshotID: wanted.SnapshotID, NetworkID: wanted.NetworkID, Public: wanted.Public,
		Metadata: wanted.Metadata, UserID: r.UserID, ProjectID: r.ProjectID,
	}
	if err := s.fill(&share, wanted); err != nil {
		return rest.Answer{}, err
	}
	if err := s.checkQuota(quotaRequest{shares: 1, gigabytes: share.Size}); err != nil {
		return rest.Answer{}, err
	}
	share.Created = s.config.Now()
	if err := s.shares.Put(share.ID, share); err != nil {
		return rest.Answer{}, err
	}
	s.continueShare(share, r.Outcome)
	return rest.Answer{Content: map[string]any{"share": describeShare(r, share)}}, nil
}

// fill checks a new share, and sets what follows from its zone, its share type and its snapshot.
func (s *Service) fill(share *Share, wanted shareRequest) error {
	zones := s.config.Zones()
	if share.Zone != "" && !slices.Contains(zones, share.Zone) {
		return rest.NotFound("Availability zone %s could not be found.", share.Zone)
	}
	typeName := wanted.Type
	if share.SnapshotID != "" {
		parent, err := s.fillFromSnapshot(share)
		if err != nil {
			return err
		}
		if typeName == "" {
			typeName = parent.TypeName
		}
		if shareType, _ := s.findType(typeName); shareType.id() != parent.TypeID {
			return rest.BadRequest("Invalid input received: Invalid share type specified: the requested " +
				"share type must match the type of the source share. If a share type is not specified when " +
				"requesting a new share from a snapshot, the share type of the source share will be applied " +
				"to the new share..")
		}
	}
	if share.Zone == "" && len(zones) > 0 {
		share.Zone = zones[0]
	}
	if share.NetworkID != "" {
		if _, err := s.network(share.NetworkID); err != nil {
			return err
		}
	}
	shareType, found := s.findType(typeName)
	switch {
	case !found:
		return rest.NotFound("Share type not found.")
	case shareType.has(handlesServers) && share.NetworkID == "":
		return rest.BadRequest("Share network must be set when the driver_handles_share_servers is true.")
	case share.Size <= 0:
		return rest.BadRequest("Invalid input received: Share size '%d' must be an integer and greater "+
			"than 0.", share.Size)
	case share.Protocol != "NFS" && share.Protocol != "CIFS":
		return rest.BadRequest("Invalid input received: Invalid share protocol provided: %s. It is either "+
			"disabled or unsupported. Available protocols: ['NFS', 'CIFS'].", share.Protocol)
	}
	share.TypeID, share.TypeName = shareType.id(), shareType.Name
	share.Snapshots, share.Creation = shareType.has(supportsSnapshots), shareType.has(supportsCreation)
	share.Revert, share.Mount = shareType.has(supportsRevert), shareType.has(supportsMount)
	share.Misplaced = share.NetworkID != "" && !shareType.has(handlesServers)
	return nil
}

// fillFromSnapshot checks the snapshot of a new share and returns the share of the snapshot.
func (s *Service) fillFromSnapshot(share *Share) (parent Share, err error) {
	snapshot, found := s.snapshots.Get(share.SnapshotID)
	if !found {
		return Share{}, rest.NotFound("Snapshot %s could not be found.", share.SnapshotID)
	}
	if parent, err = s.share(snapshot.ShareID); err != nil {
		return Share{}, err
	}
	switch {
	case !parent.Creation:
		return Share{}, rest.BadRequest("A new share may not be created from snapshot '%s', because the "+
			"snapshot's parent share does not have that capability.", snapshot.ID)
	case share.NetworkID != "" && share.NetworkID != parent.NetworkID:
		return Share{}, rest.BadRequest(
			"Share network ID should be the same as snapshot's parent share's or empty")
	case snapshot.Status != available:
		return Share{}, rest.BadRequest("Invalid share snapshot: status must be 'available'.")
	case share.Size < snapshot.Size:
		return Share{}, rest.BadRequest("Invalid input received: Share size '%d' must be equal or greater "+
			"than snapshot size.", share.Size)
	case share.Zone != "" && share.Zone != parent.Zone:
		return Share{}, rest.BadRequest("Invalid input received: The specified availability zone must be " +
			"the same as the parent share when creating from snapshot..")
	}
	share.NetworkID, share.Zone, share.Status = parent.NetworkID, parent.Zone, creatingFromSnapshot
	return parent, nil
}

// continueShare starts the operation that the status of a share asks for.
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
		s.config.Worker.Start(outcome,
			func(context.Context) error { return s.shareData.Remove(share.ID) },
			func(err error) error {
				if err == nil {
					return s.shares.Delete(share.ID)
				}
				return s.completion(share.ID, func(v *Share, _ error) { v.Status = errorDeleting })(err)
			})
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
	snapshots := filter(s.snapshots.List(),
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

// resize begins to extend or to shrink a share.
func (s *Service) resize(r *rest.Request, action string) (rest.Answer, error) {
	var wanted struct {
		NewSize int `json:"new_size"`
	}
	if err := r.Decode(action, &wanted); err != nil || wanted.NewSize == 0 {
		return rest.Answer{}, rest.BadRequest("New share size must be specified as an integer.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	share, err := s.share(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	status := shrinking
	if strings.HasSuffix(action, "extend") {
		status, err = extending, s.canExtend(share, wanted.NewSize)
	} else {
		err = canShrink(share, wanted.NewSize)
	}
	if err != nil {
		return rest.Answer{}, err
	}
	err = s.change(share.ID, func(v *Share) {
		v.Status, v.NewSize = status, wanted.NewSize
		share = *v
	})
	if err != nil {
		return rest.Answer{}, err
	}
	s.continueShare(share, r.Outcome)
	return rest.Answer{Status: http.StatusAccepted}, nil
}

func (s *Service) canExtend(share Share, size int) error {
	switch {
	case share.Status != available:
		return rest.BadRequest("Invalid share: Share %s status must be 'available' to extend, but current "+
			"status is: %s..", share.ID, share.Status)
	case size <= share.Size:
		return rest.BadRequest("Invalid input received: New size for extend must be greater than current "+
			"size. (current: %d, extended: %d)..", share.Size, size)
	}
	if err := s.checkQuota(quotaRequest{shareSize: size}); err != nil {
		return err
	}
	if err := s.checkQuota(quotaRequest{gigabytes: size - share.Size}); err != nil {
		return rest.Forbidden("%s", err) // this action answers 403, others 413
	}
	return nil
}

func canShrink(share Share, size int) error {
	switch {
	case share.Status != available && share.Status != wouldLoseData:
		return rest.BadRequest("Invalid share: Share %s status must in (available, %s) to shrink, but "+
			"current status is: %s..", share.ID, wouldLoseData, share.Status)
	case size >= share.Size || size <= 0:
		return rest.BadRequest("Invalid input received: New size for shrink must be less than current "+
			"size and greater than 0 (current: %d, new: %d).", share.Size, size)
	}
	return nil
}
