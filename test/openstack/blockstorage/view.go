//go:build linux

package blockstorage

import (
	"net/url"
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
		"source_volid": rest.Optional(v.SourceID), "metadata": notNil(v.Metadata),
		"links": r.Links("volumes", v.ID), "user_id": v.UserID, "bootable": "false",
		"encrypted": false, "replication_status": nil, "consistencygroup_id": nil,
		"multiattach": v.Multiattach, "attachments": attachments,
	}
	if r.Version.AtLeast(13) {
		description["group_id"] = nil
	}
	if r.Version.AtLeast(48) {
		description["shared_targets"], description["service_uuid"] = false, nil
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
	query := r.URL.Query()
	if err := checkFilters(r, "availability_zone", "bootable", "created_at", "group_id", "metadata",
		"migration_status", "name", "replication_status", "size", "status", "updated_at"); err != nil {
		return rest.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	volumes := filter(s.volumes.List(), func(v Volume) bool {
		return matches(query, "name", v.Name) && matches(query, "status", v.Status) &&
			matches(query, "availability_zone", v.Zone) && matches(query, "size", strconv.Itoa(v.Size)) &&
			rest.Contains(v.Metadata, rest.Keywords(query.Get("metadata")))
	})
	rest.Newest(volumes, func(v Volume) time.Time { return v.Created }, volumeID)
	page, err := rest.Paged(r, volumes, volumeID, func(marker string) error {
		return rest.NotFound("Volume %s could not be found.", marker)
	})
	if err != nil {
		return rest.Answer{}, err
	}
	return list(r, page, "volumes", func(v Volume) map[string]any {
		if strings.HasSuffix(r.URL.Path, "/detail") {
			return s.describe(r, v)
		}
		return map[string]any{
			"id": v.ID, "name": rest.Optional(v.Name), "links": r.Links("volumes", v.ID),
		}
	})
}

func volumeID(v Volume) string { return v.ID }

// list answers with a page of a collection, and with a link to the next page if this one is full.
func list[T any](
	r *rest.Request, page rest.Page[T], collection string, describe func(T) map[string]any,
) (rest.Answer, error) {
	items := []any{}
	for _, item := range page.Items {
		items = append(items, describe(item))
	}
	content := map[string]any{collection: items}
	if page.Next != nil {
		content[collection+"_links"] = page.NextLink(r, r.URL.Path)
	}
	return rest.Answer{Content: content}, nil
}

// filter returns the records for which keep is true.
func filter[T any](records []T, keep func(T) bool) []T {
	return slices.DeleteFunc(records, func(record T) bool { return !keep(record) })
}

// matches returns whether the query does not filter by a key, or by that value.
func matches(query url.Values, key, value string) bool {
	return !query.Has(key) || query.Get(key) == value
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
