//go:build linux

package sharedfilesystems

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

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
	share := &Share{
		ID: newID(), Name: wanted.Name, Description: wanted.Description, Status: creating,
		Protocol: strings.ToUpper(wanted.Protocol), Zone: wanted.Zone, Size: size,
		SnapshotID: wanted.SnapshotID, Public: wanted.Public, Metadata: wanted.Metadata,
		UserID: r.UserID, ProjectID: r.ProjectID,
	}
	if err := s.fill(share, wanted); err != nil {
		return rest.Answer{}, err
	}
	share.Created = time.Now()
	s.shares[share.ID] = share
	s.copies[share.SnapshotID] = append(s.copies[share.SnapshotID], s.config.Worker.Start(r.Outcome,
		func(ctx context.Context) error {
			if share.SnapshotID != "" {
				return s.shareData.CopyFrom(ctx, s.snapshotData, share.SnapshotID, share.ID)
			}
			return s.shareData.MakeFolder(share.ID)
		},
		s.completion(&share.Status, available, failed)))
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
	snapshot, found := s.snapshots[share.SnapshotID]
	if !found {
		return nil, rest.NotFound("Snapshot %s could not be found.", share.SnapshotID)
	}
	parent = s.shares[snapshot.ShareID] // it exists as long as the snapshot
	switch {
	case snapshot.Status != available:
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
