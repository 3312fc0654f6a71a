//go:build linux

package blockstorage

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// describe returns a volume with the fields of the microversion; API reference: Show a volume's
// details.
func (s *Service) describe(r *rest.Request, v Volume) map[string]any {
	attachments := []any{}
	for _, attachment := range v.Attachments {
		if attachment.Status != reserved {
			attachments = append(attachments, map[string]any{
				"id": v.ID, "attachment_id": attachment.ID, "volume_id": v.ID,
				"server_id": attachment.ServerID, "host_name": nil, "device": attachment.Device,
				"attached_at": rest.Time(attachment.Attached),
			})
		}
	}
	description := map[string]any{
		"id": v.ID, "status": v.Status, "size": v.Size, "availability_zone": v.Zone,
		"created_at": rest.Time(v.Created), "updated_at": rest.Time(v.Updated),
		"name": rest.Optional(v.Name), "description": rest.Optional(v.Description),
		"volume_type": v.Type, "snapshot_id": rest.Optional(v.SnapshotID),
		"source_volid": rest.Optional(v.SourceID), "metadata": rest.Metadata(v.Metadata),
		"links": r.Links("volumes", v.ID), "user_id": v.UserID, "bootable": "false",
		"encrypted": false, "replication_status": nil, "consistencygroup_id": nil,
		"multiattach": v.Multiattach, "attachments": attachments,
		"os-vol-tenant-attr:tenant_id": v.ProjectID,
	}
	if r.Version.AtLeast(13) {
		description["group_id"] = nil
	}
	if r.Version.AtLeast(48) {
		description["shared_targets"], description["service_uuid"] = true, nil
	}
	if r.Version.AtLeast(63) {
		description["volume_type_id"] = typeID(v.Type)
	}
	if r.Version.AtLeast(65) {
		description["consumes_quota"] = true
	}
	return description
}

// listVolumes answers with all volumes or those of a page, with or without details.
func (s *Service) listVolumes(r *rest.Request) (rest.Answer, error) {
	if err := checkFilters(r, "availability_zone", "bootable", "created_at", "group_id", "metadata",
		"migration_status", "name", "replication_status", "size", "status", "updated_at"); err != nil {
		return rest.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	volumes := rest.Filter(s.volumes.List(), func(v Volume) bool {
		return r.Matches("name", v.Name) && r.Matches("status", v.Status) &&
			r.Matches("availability_zone", v.Zone) && r.Matches("size", strconv.Itoa(v.Size)) &&
			rest.Contains(v.Metadata, rest.Keywords(r.URL.Query().Get("metadata")))
	})
	return rest.Collection[Volume]{
		Name: "volumes", Links: "volumes_links",
		ID:        func(v Volume) string { return v.ID },
		Created:   func(v Volume) time.Time { return v.Created },
		Describe:  func(v Volume) map[string]any { return s.describe(r, v) },
		Summarize: func(v Volume) map[string]any { return r.Summary("volumes", v.ID, v.Name) },
		Missing: func(marker string) error {
			return rest.NotFound("Volume %s could not be found.", marker)
		},
	}.Answer(r, volumes)
}

// checkFilters rejects unknown filters, as Cinder does since 3.31. Earlier versions ignore them.
func checkFilters(r *rest.Request, allowed ...string) error {
	if !r.Version.AtLeast(31) {
		return nil
	}
	allowed = append(allowed, "limit", "marker", "offset", "sort", "sort_key", "sort_dir",
		"all_tenants", "with_count")
	var unknown []string
	for key := range r.URL.Query() {
		if !slices.Contains(allowed, strings.TrimSuffix(key, "~")) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return rest.BadRequest("Invalid filters %s are found in query options.",
		strings.Join(unknown, ","))
}
