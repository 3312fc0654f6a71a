//go:build linux

package blockstorage

import (
	"net/http"
	"slices"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
)

// volumeRequest is the body of a request for a volume; API reference: Create a volume.
type volumeRequest struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Size        *int              `json:"size"`
	Zone        string            `json:"availability_zone"`
	Type        string            `json:"volume_type"`
	Metadata    map[string]string `json:"metadata"`
	SnapshotID  string            `json:"snapshot_id"`
	SourceID    string            `json:"source_volid"`
	BackupID    string            `json:"backup_id"`
}

func (s *Service) createVolume(r *rest.Request) (rest.Answer, error) {
	var wanted volumeRequest
	if err := r.Decode("volume", &wanted); err != nil {
		return rest.Answer{}, err
	}
	if !r.Version.AtLeast(47) {
		wanted.BackupID = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	volume := Volume{
		ID: newID(), Name: wanted.Name, Description: wanted.Description, Status: creating,
		SnapshotID: wanted.SnapshotID, SourceID: wanted.SourceID, BackupID: wanted.BackupID,
		Metadata: wanted.Metadata, UserID: r.UserID, ProjectID: r.ProjectID, Zone: wanted.Zone,
	}
	if err := s.fill(&volume, wanted); err != nil {
		return rest.Answer{}, err
	}
	if err := s.checkQuota(quotaRequest{volumes: 1, gigabytes: volume.Size}); err != nil {
		return rest.Answer{}, err
	}
	volume.Created = s.config.Now()
	if err := s.volumes.Put(volume.ID, volume); err != nil {
		return rest.Answer{}, err
	}
	s.continueVolume(volume, r.Outcome)
	content := map[string]any{"volume": s.describe(r, volume)}
	return rest.Answer{Status: http.StatusAccepted, Content: content}, nil
}

// fill sets size, zone and type of a new volume from the request and from the source.
func (s *Service) fill(volume *Volume, wanted volumeRequest) error {
	volumeType, err := s.findType(wanted.Type)
	if err != nil {
		return err
	}
	volume.Type, volume.Multiattach = volumeType.Name, volumeType.Multiattach
	source, err := s.findSource(wanted)
	if err != nil {
		return err
	}
	volume.Size = source.size
	if wanted.Size != nil {
		volume.Size = *wanted.Size
	}
	if volume.Size <= 0 {
		return rest.BadRequest("Invalid input received: Volume size '%d' must be an integer and greater "+
			"than 0", volume.Size)
	}
	if volume.Size < source.size {
		return source.tooSmall(volume.Size)
	}
	zones := s.config.Zones()
	if volume.Zone == "" {
		volume.Zone = source.zone
	}
	if volume.Zone == "" && len(zones) > 0 {
		volume.Zone = zones[0]
	}
	if !slices.Contains(zones, volume.Zone) {
		return rest.BadRequest("Availability zone '%s' is invalid.", volume.Zone)
	}
	if source.zone != "" && volume.Zone != source.zone {
		return rest.BadRequest("Invalid input received: Volume must be in the same availability zone as "+
			"the %s", source.kind)
	}
	return nil
}

// source is what a volume is created from.
type source struct {
	kind, zone string
	size       int
}

func (s source) tooSmall(size int) error {
	switch s.kind {
	case "snapshot":
		return rest.BadRequest("Invalid input received: Volume size '%d'GB cannot be smaller than the "+
			"snapshot size %dGB. They must be >= original snapshot size.", size, s.size)
	case "backup":
		return rest.BadRequest("Invalid input received: Volume size %dGB cannot be smaller than the "+
			"backup size %dGB. It must be >= backup size.", size, s.size)
	}
	return rest.BadRequest("Invalid input received: Volume size '%d'GB cannot be smaller than "+
		"original volume size  %dGB. They must be >= original volume size.", size, s.size)
}

// findSource returns what a volume is created from, the zero value if nothing.
func (s *Service) findSource(wanted volumeRequest) (source, error) {
	switch {
	case wanted.SnapshotID != "":
		snapshot, err := s.snapshot(wanted.SnapshotID)
		if err != nil {
			return source{}, err
		}
		if snapshot.Status != available {
			return source{}, rest.BadRequest("Invalid snapshot: Originating snapshot status must be one " +
				"of 'available' values")
		}
		volume, err := s.volume(snapshot.VolumeID)
		return source{kind: "snapshot", size: snapshot.Size, zone: volume.Zone}, err
	case wanted.SourceID != "":
		volume, err := s.volume(wanted.SourceID)
		if err != nil {
			return source{}, err
		}
		if volume.Status != available && volume.Status != inUse {
			return source{}, rest.BadRequest("Invalid volume: Originating source volume status must be " +
				"one of 'available, in-use' values")
		}
		return source{kind: "source volume", size: volume.Size, zone: volume.Zone}, nil
	case wanted.BackupID != "":
		backup, err := s.backup(wanted.BackupID)
		if err != nil {
			return source{}, err
		}
		if backup.Status != available {
			return source{}, rest.BadRequest("Invalid backup: Originating backup status must be one of " +
				"'available' values")
		}
		return source{kind: "backup", size: backup.Size}, nil
	}
	return source{}, nil
}
