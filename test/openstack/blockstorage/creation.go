package blockstorage

import (
	"context"
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
}

func (s *Service) createVolume(r *rest.Request) (rest.Answer, error) {
	var wanted volumeRequest
	if err := r.Decode("volume", &wanted); err != nil {
		return rest.Answer{}, err
	}
	volume := &Volume{
		Record: r.NewRecord(), Zone: wanted.Zone, SnapshotID: wanted.SnapshotID,
		SourceID: wanted.SourceID,
	}
	volume.Name, volume.Description = wanted.Name, wanted.Description
	volume.Metadata = wanted.Metadata
	err := s.fill(volume, wanted)
	if err == nil {
		err = s.checkQuotas(volume.Type, 1, volume.Size, volume.Size)
	}
	if err != nil {
		return rest.Answer{}, err
	}
	size := volume.Size
	content, done := s.volumes.Create(r, volume,
		func(ctx context.Context) error { return s.makeVolume(ctx, volume, size) })
	switch {
	case volume.SnapshotID != "":
		s.snapshots.Hold(volume.SnapshotID, done)
	case volume.SourceID != "":
		s.volumes.Hold(volume.SourceID, done)
	}
	return rest.Answer{Status: http.StatusAccepted, Content: content}, nil
}

func (s *Service) makeVolume(ctx context.Context, volume *Volume, size int) error {
	var err error
	switch {
	case volume.SnapshotID != "":
		err = s.volumes.Data.CopyFrom(ctx, s.snapshots.Data, volume.SnapshotID, volume.ID)
	case volume.SourceID != "":
		err = s.volumes.Data.CopyFrom(ctx, s.volumes.Data, volume.SourceID, volume.ID)
	}
	if err != nil {
		return err
	}
	return s.volumes.Data.MakeFile(volume.ID, int64(size)*gibibyte)
}

// fill checks the type of a new volume, and sets size and zone from the request and the source.
func (s *Service) fill(volume *Volume, wanted volumeRequest) error {
	volume.Type = defaultType
	if err := checkType(wanted.Type); err != nil {
		return err
	}
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

type source struct {
	kind, zone string
	size       int
}

func (s source) tooSmall(size int) error {
	if s.kind == "snapshot" {
		return rest.BadRequest("Invalid input received: Volume size '%d'GB cannot be smaller than the "+
			"snapshot size %dGB. They must be >= original snapshot size.", size, s.size)
	}
	return rest.BadRequest("Invalid input received: Volume size '%d'GB cannot be smaller than "+
		"original volume size  %dGB. They must be >= original volume size.", size, s.size)
}

// findSource returns what a volume is created from, the zero value if nothing.
func (s *Service) findSource(wanted volumeRequest) (source, error) {
	switch {
	case wanted.SnapshotID != "":
		snapshot, err := s.snapshots.Find(wanted.SnapshotID)
		if err != nil {
			return source{}, err
		}
		if snapshot.Status != rest.Available {
			return source{}, rest.BadRequest("Invalid snapshot: Originating snapshot status must be one " +
				"of 'available' values")
		}
		volume, err := s.volumes.Find(snapshot.VolumeID) // it exists as long as the snapshot
		if err != nil {
			return source{}, err
		}
		return source{"snapshot", volume.Zone, snapshot.Size}, nil
	case wanted.SourceID != "":
		volume, err := s.volumes.Find(wanted.SourceID)
		if err != nil {
			return source{}, err
		}
		if volume.Status != rest.Available && volume.Status != InUse {
			return source{}, rest.BadRequest("Invalid volume: Originating source volume status must be " +
				"one of 'available, in-use' values")
		}
		return source{"source volume", volume.Zone, volume.Size}, nil
	}
	return source{}, nil
}
