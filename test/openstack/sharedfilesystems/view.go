//go:build linux

package sharedfilesystems

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// describeShare returns a share with the fields of the microversion; API reference: Show share
// details. Below 2.9 the export locations are fields of the share; the simulator leaves them empty.
func describeShare(r *rest.Request, share Share) map[string]any {
	status := share.Status
	if status == creatingFromSnapshot && !r.Version.AtLeast(54) {
		status = creating
	}
	description := map[string]any{
		"id": share.ID, "size": share.Size, "availability_zone": rest.Optional(share.Zone),
		"created_at": rest.Time(share.Created), "status": status, "name": rest.Optional(share.Name),
		"description": rest.Optional(share.Description), "project_id": share.ProjectID,
		"snapshot_id":      rest.Optional(share.SnapshotID),
		"share_network_id": rest.Optional(share.NetworkID), "share_proto": share.Protocol,
		"metadata": notNil(share.Metadata), "share_type": share.TypeName, "volume_type": share.TypeName,
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
		{2, "snapshot_support", share.Snapshots},
		{5, "task_state", nil},
		{10, "access_rules_status", rulesStatus(r, share)},
		{11, "replication_type", nil},
		{11, "has_replicas", false},
		{16, "user_id", share.UserID},
		{24, "create_share_from_snapshot_support", share.Creation},
		{27, "revert_to_snapshot_support", share.Revert},
		{31, "share_group_id", nil},
		{31, "source_share_group_snapshot_member_id", nil},
		{32, "mount_snapshot_support", share.Mount},
		{54, "progress", progress(share.Status)},
		{69, "is_soft_deleted", false},
		{69, "scheduled_to_be_deleted_at", nil},
	} {
		if r.Version.AtLeast(field.since) {
			description[field.name] = field.value
		}
	}
	return description
}

func progress(status string) string {
	if status == creating || status == creatingFromSnapshot {
		return "0%"
	}
	return "100%"
}

// listShares answers with the shares of a page, with or without details.
func (s *Service) listShares(r *rest.Request) (rest.Answer, error) {
	query := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	shares := filter(s.shares.List(), func(share Share) bool {
		return matches(query, "name", share.Name) && matches(query, "display_name", share.Name) &&
			matches(query, "status", share.Status) && matches(query, "share_type_id", share.TypeID) &&
			matches(query, "share_network_id", share.NetworkID) &&
			matches(query, "snapshot_id", share.SnapshotID) &&
			rest.Contains(share.Metadata, rest.Keywords(query.Get("metadata"))) &&
			(!query.Has("name~") || strings.Contains(share.Name, query.Get("name~")))
	})
	id := func(share Share) string { return share.ID }
	rest.Newest(shares, func(share Share) time.Time { return share.Created }, id)
	page, err := rest.Paged(r, shares, id, func(string) error { return rest.NotFound("") })
	if err != nil {
		return rest.Answer{}, err
	}
	list := []any{}
	for _, share := range page.Items {
		if strings.HasSuffix(r.URL.Path, "/detail") {
			list = append(list, describeShare(r, share))
		} else {
			list = append(list, map[string]any{
				"id": share.ID, "name": rest.Optional(share.Name), "links": r.Links("shares", share.ID),
			})
		}
	}
	content := map[string]any{"shares": list}
	if page.Next != nil {
		content["shares_links"] = page.NextLink(r, "/shares")
	}
	return rest.Answer{Content: content}, nil
}

// matches returns whether the query does not filter by a key, or by that value.
func matches(query url.Values, key, value string) bool {
	return !query.Has(key) || query.Get(key) == value
}

// listExportLocations answers with the only export location of a share, none if there is no share
// to export. Its path is HOST:/shares/ID.
func (s *Service) listExportLocations(r *rest.Request) (rest.Answer, error) {
	if !r.Version.AtLeast(9) {
		return rest.Answer{}, r.Unsupported()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	share, found := s.shares.Get(r.PathValue("id"))
	if !found {
		return rest.Answer{}, rest.NotFound("Share '%s' not found.", r.PathValue("id"))
	}
	list := []any{}
	if !slices.Contains([]string{creating, creatingFromSnapshot, failed}, share.Status) {
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

func (s *Service) showMetadata(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	share, found := s.shares.Get(r.PathValue("id"))
	if !found {
		return rest.Answer{}, rest.NotFound("Share not found.")
	}
	return rest.Answer{Content: map[string]any{"metadata": notNil(share.Metadata)}}, nil
}

// updateMetadata adds metadata (POST) or replaces them (PUT).
func (s *Service) updateMetadata(r *rest.Request) (rest.Answer, error) {
	var wanted map[string]string
	if err := r.Decode("metadata", &wanted); err != nil {
		return rest.Answer{}, rest.BadRequest("Malformed request body")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	share, found := s.shares.Get(r.PathValue("id"))
	if !found {
		return rest.Answer{}, rest.NotFound("Share not found.")
	}
	metadata := map[string]string{}
	if r.Method == http.MethodPost {
		maps.Copy(metadata, share.Metadata)
	}
	maps.Copy(metadata, wanted)
	err := s.change(share.ID, func(v *Share) { v.Metadata = metadata })
	return rest.Answer{Content: map[string]any{"metadata": metadata}}, err
}

func (s *Service) deleteMetadata(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	share, found := s.shares.Get(r.PathValue("id"))
	if !found {
		return rest.Answer{}, rest.NotFound("Share not found.")
	}
	if _, found := share.Metadata[r.PathValue("key")]; !found {
		return rest.Answer{}, rest.NotFound("Metadata item was not found")
	}
	metadata := maps.Clone(share.Metadata)
	delete(metadata, r.PathValue("key"))
	return rest.Answer{}, s.change(share.ID, func(v *Share) { v.Metadata = metadata })
}
