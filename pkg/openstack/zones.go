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
	// Name has 1 to 255 characters, of any kind: whoever prints it quotes it.
	Name string
	// Available says that the service takes requests for the zone.
	Available bool
}

// ComputeZones returns the availability zones for servers, as Nova lists them: in its order, and a name as often as it has it.
func (c *Client) ComputeZones(ctx context.Context) ([]Zone, error) {
	var zones []Zone
	err := c.ask(ctx, nova(), func(nova *gophercloud.ServiceClient) error {
		page, err := listing(ctx, computezones.List(nova), zonesKey)
		if err != nil {
			return err
		}
		found, err := computezones.ExtractAvailabilityZones(page)
		if err != nil {
			return err
		}
		zones, err = checked(found, func(z computezones.AvailabilityZone) (string, Zone) {
			return z.ZoneName, Zone{z.ZoneName, z.ZoneState.Available}
		})
		return err
	})
	return zones, err
}

// VolumeZones returns the availability zones for volumes, as Cinder lists them: in its order, and a name as often as it has it.
func (c *Client) VolumeZones(ctx context.Context) ([]Zone, error) {
	var zones []Zone
	err := c.ask(ctx, cinder(), func(cinder *gophercloud.ServiceClient) error {
		page, err := listing(ctx, volumezones.List(cinder), zonesKey)
		if err != nil {
			return err
		}
		found, err := volumezones.ExtractAvailabilityZones(page)
		if err != nil {
			return err
		}
		zones, err = checked(found, func(z volumezones.AvailabilityZone) (string, Zone) {
			return z.ZoneName, Zone{z.ZoneName, z.ZoneState.Available}
		})
		return err
	})
	return zones, err
}
