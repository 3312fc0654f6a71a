package blockstorage

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// The states that only volumes have.
const (
	Reserved       = "reserved"
	InUse          = "in-use"
	Detaching      = "detaching"
	errorExtending = "error_extending"
	errorRestoring = "error_restoring"
	errorManaging  = "error_managing"
)

// Volume is the record of a volume.
type Volume struct {
	rest.Record

	Type, Zone           string
	SnapshotID, SourceID string
	Attachment           Attachment
}

// Attachment is the attachment of a volume to a server. The zero value is none.
type Attachment struct {
	ID, ServerID string
	// Device is the name in the server, such as /dev/vdb.
	Device   string
	Attached time.Time
}

// Change calls a function with a volume, of which it may change status and attachment. It returns
// the error of the function, or the error 404. The caller holds the lock of the worker.
func (s *Service) Change(volumeID string, change func(*Volume) error) error {
	volume, err := s.volumes.Find(volumeID)
	if err != nil {
		return err
	}
	return change(volume)
}

// File returns the file with the data of a volume, or "" in a cloud without a folder.
func (s *Service) File(volumeID string) string { return s.volumes.Data.Path(volumeID) }

// canDelete returns the error of a volume that must stay.
func (s *Service) canDelete(volume *Volume) error {
	ofVolume := func(snapshot *Snapshot) bool { return snapshot.VolumeID == volume.ID }
	if volume.Attachment.ID == "" && s.snapshots.Count(ofVolume) == 0 &&
		slices.Contains([]string{
			rest.Available, rest.Failed, errorRestoring, errorExtending, errorManaging,
		}, volume.Status) {
		return nil
	}
	return rest.BadRequest("Invalid volume: Volume status must be available or error or " +
		"error_restoring or error_extending or error_managing and must not be migrating, attached, " +
		"belong to a group, have snapshots, awaiting a transfer, or be disassociated from snapshots " +
		"after volume transfer.")
}

// actOnVolume performs the action os-extend. Attached volumes need microversion 3.42.
func (s *Service) actOnVolume(r *rest.Request) (rest.Answer, error) {
	action, err := r.Action()
	if err != nil {
		return rest.Answer{}, err
	}
	if action != "os-extend" {
		return rest.Answer{}, rest.BadRequest("There is no such action: %s", action)
	}
	var wanted struct {
		NewSize int `json:"new_size"`
	}
	if err := r.Decode(action, &wanted); err != nil {
		return rest.Answer{}, err
	}
	volume, err := s.volumes.Find(r.PathValue("id"))
	if err != nil {
		return rest.Answer{}, err
	}
	expected := rest.Available
	if r.Version.AtLeast(42) && volume.Status == InUse {
		expected = InUse
	}
	switch {
	case wanted.NewSize <= volume.Size:
		return rest.Answer{}, rest.BadRequest("Invalid input received: New size for extend must be "+
			"greater than current size. (current: %d, extended: %d).", volume.Size, wanted.NewSize)
	case volume.Status != expected:
		return rest.Answer{}, rest.BadRequest("Invalid volume: Volume %s status must be '{'status': "+
			"'%s'}' to extend, currently %s.", volume.ID, expected, volume.Status)
	}
	growth := wanted.NewSize - volume.Size
	if err := s.checkQuotas(volume.Type, 0, growth, wanted.NewSize); err != nil {
		return rest.Answer{}, err
	}
	volume.Set(rest.Extending)
	server := volume.Attachment.ServerID
	s.volumes.Start(r, volume, rest.Operation{
		Work: func(ctx context.Context) error {
			return s.extend(ctx, volume.ID, server, wanted.NewSize)
		},
		Success: expected, Failure: errorExtending, Size: wanted.NewSize,
	})
	return rest.Answer{Status: http.StatusAccepted}, nil
}

// extend makes the file of a volume larger, and tells the server that it is attached to.
func (s *Service) extend(ctx context.Context, id, server string, size int) error {
	if err := s.volumes.Data.MakeFile(id, int64(size)*gibibyte); err != nil {
		return err
	}
	if server == "" || s.config.Extended == nil {
		return nil
	}
	return s.config.Extended(ctx, server, id)
}

// describe returns a volume with the fields of the microversion; API reference: Show a volume's
// details.
func describe(r *rest.Request, v *Volume) map[string]any {
	attachments := []any{}
	if v.Attachment.ID != "" && v.Status != Reserved {
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
