package sharedfilesystems

import (
	"maps"
	"net/http"
	"slices"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/sharestate"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// The states that only shares have.
const (
	creatingFromSnapshot = "creating_from_snapshot"
	extendingError       = "extending_error"
)

// Share is the record of a share.
type Share struct {
	rest.Record
	sharestate.Access

	Protocol, Zone   string
	TypeID, TypeName string
	SnapshotID       string
	Public           bool
}

func (s *Share) state() sharestate.Share {
	return sharestate.Share{ID: s.ID, Status: s.Status}
}

// share returns a share, or an error 404 that names it.
func (s *Service) share(id string) (*Share, error) {
	share, err := s.shares.Find(id)
	if err != nil {
		return nil, rest.NotFound("Share %s could not be found.", id)
	}
	return share, nil
}

func (s *Service) canDelete(share *Share) error {
	if !slices.Contains(sharestate.Deletable(), share.Status) {
		return rest.Forbidden("Invalid share: Share status must be one of ('available', 'error', " +
			"'inactive').")
	}
	ofShare := func(snapshot *Snapshot) bool { return snapshot.ShareID == share.ID }
	if count := s.snapshots.Count(ofShare); count > 0 {
		return rest.Forbidden("Invalid share: Share still has %d dependent snapshots..", count)
	}
	return nil
}

// recycle moves a share into the recycle bin, or restores it.
func (s *Service) recycle(r *rest.Request, remove bool) (rest.Answer, error) {
	if !r.Version.AtLeast(69) {
		return rest.Answer{}, r.Unsupported()
	}
	share, err := s.share(r.PathValue("id"))
	if err == nil && remove {
		err = s.canDelete(share)
	}
	if err != nil {
		return rest.Answer{}, err
	}
	share.SoftDeleted = remove
	return rest.Answer{Status: http.StatusAccepted}, nil
}

func (s *Service) extend(r *rest.Request, action string) (rest.Answer, error) {
	var wanted struct {
		NewSize int `json:"new_size"`
	}
	if err := r.Decode(action, &wanted); err != nil || wanted.NewSize == 0 {
		return rest.Answer{}, rest.BadRequest("New share size must be specified as an integer.")
	}
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
	growth := wanted.NewSize - share.Size
	if err := s.checkQuotas(share.TypeName, 0, growth, wanted.NewSize); err != nil {
		return rest.Answer{}, err
	}
	share.Set(rest.Extending)
	s.shares.Start(r, share, rest.Operation{
		Success: rest.Available, Failure: extendingError, Size: wanted.NewSize,
	})
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// describeShare returns a share with the fields of the microversion; API reference: Show share
// details. Below 2.9 the export locations are fields of the share; the simulator leaves them empty.
func describeShare(r *rest.Request, share *Share) map[string]any {
	status := share.Status
	if status == creatingFromSnapshot && !r.Version.AtLeast(54) {
		status = rest.Creating
	}
	zone := rest.Optional(share.Zone)
	if share.Status == rest.Creating || share.Status == creatingFromSnapshot {
		zone = nil // the scheduler has not decided
	}
	description := map[string]any{
		"id": share.ID, "size": share.Size, "availability_zone": zone,
		"created_at": rest.Time(share.Created), "status": status, "name": rest.Optional(share.Name),
		"description": rest.Optional(share.Description), "project_id": share.ProjectID,
		"snapshot_id":      rest.Optional(share.SnapshotID),
		"share_network_id": nil, "share_proto": share.Protocol,
		"metadata":   rest.Metadata(share.Metadata),
		"share_type": share.TypeName, "volume_type": share.TypeName,
		"links": r.Links("shares", share.ID), "is_public": share.Public,
	}
	if !r.Version.AtLeast(9) {
		description["export_location"], description["export_locations"] = nil, []any{}
	}
	if r.Version.AtLeast(6) {
		description["share_type"], description["share_type_name"] = share.TypeID, share.TypeName
	}
	for _, field := range []struct {
		since int
		name  string
		value any
	}{
		{2, "snapshot_support", true},
		{5, "task_state", nil},
		{10, "access_rules_status", rulesStatus(r, share)},
		{11, "replication_type", nil},
		{11, "has_replicas", false},
		{16, "user_id", share.UserID},
		{24, "create_share_from_snapshot_support", true},
		{27, "revert_to_snapshot_support", false},
		{31, "share_group_id", nil},
		{31, "source_share_group_snapshot_member_id", nil},
		{32, "mount_snapshot_support", false},
		{54, "progress", progress(share.Status)},
		{69, "is_soft_deleted", share.SoftDeleted},
		{69, "scheduled_to_be_deleted_at", nil},
	} {
		if r.Version.AtLeast(field.since) {
			description[field.name] = field.value
		}
	}
	return description
}

// progress is that of the creation; nil until a share server works on it.
func progress(status string) any {
	if status == rest.Creating || status == creatingFromSnapshot {
		return nil
	}
	return "100%"
}

// listExportLocations answers with the only export location of a share, none if there is no share
// to export. Its path is HOST:/shares/ID.
func (s *Service) listExportLocations(r *rest.Request) (rest.Answer, error) {
	if !r.Version.AtLeast(9) {
		return rest.Answer{}, r.Unsupported()
	}
	share, err := s.shares.Find(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, rest.NotFound("Share '%s' not found.", r.PathValue("id"))
	}
	list := []any{}
	if !slices.Contains([]string{rest.Creating, creatingFromSnapshot, rest.Failed}, share.Status) {
		location := map[string]any{
			"id": state.NamedID("export location", share.ID), "path": s.config.Host + ":/shares/" + share.ID,
		}
		if r.Version.AtLeast(14) {
			location["preferred"] = false
		}
		list = append(list, location)
	}
	return rest.Answer{Content: map[string]any{"export_locations": list}}, nil
}

func (s *Service) addMetadata(r *rest.Request) (rest.Answer, error) {
	var wanted map[string]string
	if err := r.Decode("metadata", &wanted); err != nil {
		return rest.Answer{}, err
	}
	share, err := s.shares.Find(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, rest.NotFound("Share not found.")
	}
	if err := sharestate.CheckMetadata(wanted); err != nil {
		return rest.Answer{}, answered(err)
	}
	share.Metadata = maps.Clone(rest.Metadata(share.Metadata))
	maps.Copy(share.Metadata, wanted)
	return rest.Answer{Content: map[string]any{"metadata": share.Metadata}}, nil
}

func (s *Service) deleteMetadata(r *rest.Request) (rest.Answer, error) {
	share, err := s.shares.Find(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, rest.NotFound("Share not found.")
	}
	if _, found := share.Metadata[r.PathValue("key")]; !found {
		return rest.Answer{}, rest.NotFound("Metadata item was not found")
	}
	share.Metadata = maps.Clone(share.Metadata)
	delete(share.Metadata, r.PathValue("key"))
	return rest.Answer{}, nil
}
