//go:build linux

package sharedfilesystems

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// shareRequest is the body of a request for a share; API reference: Create share.
type shareRequest struct {
	Protocol    string            `json:"share_proto"`
	Size        json.RawMessage   `json:"size"` // a number, or a text with one
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
	if err := decode(r, "share", &wanted); err != nil {
		return rest.Answer{}, err
	}
	text := strings.Trim(string(wanted.Size), `"`)
	size, err := strconv.Atoi(text)
	if err != nil || size <= 0 {
		return rest.Answer{}, rest.BadRequest("Invalid input received: Share size '%s' must be an "+
			"integer and greater than 0.", text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	share := Share{
		ID: newID(), Name: wanted.Name, Description: wanted.Description, Status: creating,
		Protocol: strings.ToUpper(wanted.Protocol), Zone: wanted.Zone, Size: size,
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

// decode parses the body of a request, with the errors of Manila.
func decode(r *rest.Request, key string, content any) error {
	if !json.Valid(r.Content) {
		return rest.BadRequest("Malformed request body")
	}
	if err := r.Decode(key, content); err != nil {
		return unprocessable("Unable to process the contained instructions")
	}
	return nil
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
	case share.Protocol != "NFS" && share.Protocol != "CIFS":
		return rest.BadRequest("Invalid input received: Invalid share protocol provided: %s. It is "+
			"either disabled or unsupported. Available protocols: ['NFS', 'CIFS'].", share.Protocol)
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
		return Share{}, rest.BadRequest("Invalid input received: Share size '%d' must be equal or "+
			"greater than snapshot size.", share.Size)
	case share.Zone != "" && share.Zone != parent.Zone:
		return Share{}, rest.BadRequest("Invalid input received: The specified availability zone must " +
			"be the same as the parent share when creating from snapshot..")
	}
	share.NetworkID, share.Zone, share.Status = parent.NetworkID, parent.Zone, creatingFromSnapshot
	return parent, nil
}
