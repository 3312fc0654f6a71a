//go:build linux

package blockstorage

import (
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// describe returns a volume with the fields of the microversion; API reference: Show a volume's
// details.
func describe(r *rest.Request, v *Volume) map[string]any {
	attachments := []any{}
	if v.Attachment.ID != "" && v.Status != reserved {
		attachments = append(attachments, map[string]any{
			"id": v.ID, "attachment_id": v.Attachment.ID, "volume_id": v.ID,
			"server_id": v.Attachment.ServerID, "host_name": nil, "device": v.Attachment.Device,
			"attached_at": rest.Time(v.Attachment.Attached),
		})
	}
	description := map[string]any{
		"id": v.ID, "status": v.Status, "size": v.Size, "availability_zone": v.Zone,
		"created_at": rest.Time(v.Created), "updated_at": rest.Time(v.Updated),
		"name": rest.Optional(v.Name), "description": rest.Optional(v.Description),
		"volume_type": v.Type, "snapshot_id": rest.Optional(v.SnapshotID),
		"source_volid": rest.Optional(v.SourceID), "metadata": rest.Metadata(v.Metadata),
		"links": r.Links("volumes", v.ID), "user_id": v.UserID, "bootable": "false",
		"encrypted": false, "replication_status": nil, "consistencygroup_id": nil,
		"multiattach": false, "attachments": attachments,
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

// filtered rejects unknown filters, as Cinder does since 3.31. Earlier versions ignore them.
func filtered(list rest.Handler, filters ...string) rest.Handler {
	return func(r *rest.Request) (rest.Answer, error) {
		if err := checkFilters(r, filters); err != nil {
			return rest.Answer{}, err
		}
		return list(r)
	}
}

func checkFilters(r *rest.Request, allowed []string) error {
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
