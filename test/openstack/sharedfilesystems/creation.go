package sharedfilesystems

import (
	"cmp"
	"context"
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
	share := &Share{
		Record: r.NewRecord(), Protocol: strings.ToUpper(wanted.Protocol), Zone: wanted.Zone,
		SnapshotID: wanted.SnapshotID, Public: wanted.Public,
	}
	share.Name, share.Description, share.Size = wanted.Name, wanted.Description, size
	share.Metadata = wanted.Metadata
	err = s.fill(share, wanted)
	if err == nil {
		err = s.checkQuotas(share.TypeName, 1, share.Size, share.Size)
	}
	if err != nil {
		return rest.Answer{}, err
	}
	content, done := s.shares.Create(r, share, func(ctx context.Context) error {
		if share.SnapshotID != "" {
			return s.shares.Data.CopyFrom(ctx, s.snapshots.Data, share.SnapshotID, share.ID)
		}
		return s.shares.Data.MakeFolder(share.ID)
	})
	if share.SnapshotID != "" {
		s.snapshots.Hold(share.SnapshotID, done)
	}
	return rest.Answer{Content: content}, nil
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
		typeName = cmp.Or(typeName, parent.TypeName)
	}
	if share.Zone == "" && len(zones) > 0 {
		share.Zone = zones[0]
	}
	shareType, found := s.findType(typeName)
	switch {
	case wanted.NetworkID != "":
		return rest.NotFound("Share network %s could not be found.", wanted.NetworkID)
	case !found:
		return rest.NotFound("Share type not found.")
	case share.Protocol != "NFS" && share.Protocol != "CIFS":
		return rest.BadRequest("Invalid input received: Invalid share protocol provided: %s. It is "+
			"either disabled or unsupported. Available protocols: ['NFS', 'CIFS'].", share.Protocol)
	}
	share.TypeID, share.TypeName = shareType.id(), shareType.Name
	return nil
}

// fillFromSnapshot checks the snapshot of a new share and returns the share of the snapshot.
func (s *Service) fillFromSnapshot(share *Share) (parent *Share, err error) {
	snapshot, err := s.snapshots.Find(share.SnapshotID)
	if err != nil {
		return nil, rest.NotFound("Snapshot %s could not be found.", share.SnapshotID)
	}
	if parent, err = s.shares.Find(snapshot.ShareID); err != nil {
		return nil, err // never: it exists as long as the snapshot
	}
	switch {
	case snapshot.Status != rest.Available:
		return nil, rest.BadRequest("Invalid share snapshot: status must be 'available'.")
	case share.Size < snapshot.Size:
		return nil, rest.BadRequest("Invalid input received: Share size '%d' must be equal or "+
			"greater than snapshot size.", share.Size)
	case share.Zone != "" && share.Zone != parent.Zone:
		return nil, rest.BadRequest("Invalid input received: The specified availability zone must " +
			"be the same as the parent share when creating from snapshot..")
	}
	share.Zone, share.Status = parent.Zone, creatingFromSnapshot
	return parent, nil
}
