package openstack

import (
	"context"

	"github.com/gophercloud/gophercloud/v2"
	volumezones "github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/availabilityzones"
	computezones "github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
)

// zonesKey is what every list of availability zones has, an empty one too.
const zonesKey = "availabilityZoneInfo"

// Zone is an availability zone.
type Zone struct {
	Name string
	// Available says that the service takes requests for the zone.
	Available bool
}

// ComputeZones returns the availability zones for servers, as Nova lists them: in its order, and a name as often as it has it.
func (c *Client) ComputeZones(ctx context.Context) ([]Zone, error) {
	var zones []Zone
	err := c.ask(ctx, "compute service (Nova)", []string{"compute"}, func(nova *gophercloud.ServiceClient) error {
		page, err := listing(ctx, computezones.List(nova), zonesKey)
		if err != nil {
			return err
		}
		found, err := computezones.ExtractAvailabilityZones(page)
		if err != nil {
			return err
		}
		zones, err = named(found, func(z computezones.AvailabilityZone) Zone { return Zone{z.ZoneName, z.ZoneState.Available} })
		return err
	})
	return zones, err
}

// VolumeZones returns the availability zones for volumes, as Cinder lists them: in its order, and a name as often as it has it.
func (c *Client) VolumeZones(ctx context.Context) ([]Zone, error) {
	var zones []Zone
	err := c.ask(ctx, "block storage service (Cinder)", []string{"volumev3", "block-storage"}, func(cinder *gophercloud.ServiceClient) error {
		page, err := listing(ctx, volumezones.List(cinder), zonesKey)
		if err != nil {
			return err
		}
		found, err := volumezones.ExtractAvailabilityZones(page)
		if err != nil {
			return err
		}
		zones, err = named(found, func(z volumezones.AvailabilityZone) Zone { return Zone{z.ZoneName, z.ZoneState.Available} })
		return err
	})
	return zones, err
}

// named converts what gophercloud found. An element without a name comes from something that is no OpenStack.
func named[T any](found []T, convert func(T) Zone) ([]Zone, error) {
	zones := make([]Zone, 0, len(found))
	for _, f := range found {
		zone := convert(f)
		if zone.Name == "" {
			return nil, errForeign
		}
		zones = append(zones, zone)
	}
	return zones, nil
}
