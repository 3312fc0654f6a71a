package openstack

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/gophercloud/gophercloud/v2"
	volumezones "github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
	computezones "github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"
	"github.com/gophercloud/gophercloud/v2/pagination"
)

// Limits of a list: more than real clouds need, and the size of names in OpenStack's databases.
const (
	maxItems = 1000
	maxName  = 255
)

// errTooMany means that a list is longer than maxItems.
var errTooMany = errors.New("too many items in a list")

type listing[T, R any] struct {
	service service
	// key is the field of the response that contains the list. An empty list is there too.
	key     string
	list    func(*gophercloud.ServiceClient) pagination.Pager
	extract func(pagination.Page) ([]T, error)
	// convert returns the name of an item, and the item for the caller.
	convert func(T) (name string, result R)
}

func (l listing[T, R]) fetch(ctx context.Context, c *Client) (results []R, err error) {
	err = c.call(ctx, l.service, func(endpoint *gophercloud.ServiceClient) error {
		page, err := l.list(endpoint).AllPages(ctx)
		if err != nil {
			return err
		}
		results, err = l.items(page)
		return err
	})
	return results, err
}

// items returns the items of a page.
func (l listing[T, R]) items(page pagination.Page) ([]R, error) {
	if body, ok := page.GetBody().(map[string]any); !ok || body[l.key] == nil {
		return nil, errNotOpenStack
	}
	found, err := l.extract(page)
	if err != nil {
		return nil, err
	}
	return l.converted(found)
}

// converted checks and converts the items. OpenStack does not return an item without a name or with
// a name longer than maxName.
func (l listing[T, R]) converted(found []T) ([]R, error) {
	if len(found) > maxItems {
		return nil, errTooMany
	}
	results := make([]R, 0, len(found))
	for _, f := range found {
		name, result := l.convert(f)
		if name == "" || utf8.RuneCountInString(name) > maxName {
			return nil, errNotOpenStack
		}
		results = append(results, result)
	}
	return results, nil
}

// Type is a share type or a volume type.
type Type struct {
	// Name consists of 1 to 255 arbitrary characters: quote it in messages.
	Name string
	// NeedsNetwork is true if Manila creates a share of the type only in a share network.
	NeedsNetwork bool
}

// ShareTypes returns the share types that Manila offers to the project, in Manila's order, at most
// 1000. If the cloud has no Manila, the error has the reason NotOffered.
func (c *Client) ShareTypes(ctx context.Context) ([]Type, error) {
	list := func(client *gophercloud.ServiceClient) pagination.Pager {
		return sharetypes.List(client, sharetypes.ListOpts{})
	}
	convert := func(t sharetypes.ShareType) (string, Type) {
		// Every share type has this extra spec, as "True" or "False". Without it the type is one of the
		// usual kind.
		managed, _ := strconv.ParseBool(fmt.Sprint(t.ExtraSpecs["driver_handles_share_servers"]))
		return t.Name, Type{t.Name, managed}
	}
	return listing[sharetypes.ShareType, Type]{
		manila(), "share_types", list, sharetypes.ExtractShareTypes, convert,
	}.fetch(ctx, c)
}

// VolumeTypes returns the volume types that Cinder offers to the project, in Cinder's order: those
// that are public, and those that the project was given access to, at most 1000.
func (c *Client) VolumeTypes(ctx context.Context) (types []Type, err error) {
	convert := func(t volumetypes.VolumeType) (string, Type) { return t.Name, Type{Name: t.Name} }
	l := listing[volumetypes.VolumeType, Type]{
		service: cinder(), key: "volume_types", extract: volumetypes.ExtractVolumeTypes, convert: convert,
	}
	err = c.call(ctx, l.service, func(endpoint *gophercloud.ServiceClient) error {
		types = []Type{}
		pager := volumetypes.List(endpoint, volumetypes.ListOpts{}).WithPageCreator(newTypePage)
		return pager.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
			more, err := l.items(page.(typePage).VolumeTypePage)
			if types = append(types, more...); err == nil && len(types) > maxItems {
				err = errTooMany
			}
			return err == nil, err
		})
	})
	return types, err
}

// typePage is a page of volume types. gophercloud does not pass an empty page to its caller, who
// could then not distinguish an empty list from an answer that is not a list.
type typePage struct{ volumetypes.VolumeTypePage }

func newTypePage(r pagination.PageResult) pagination.Page {
	linked := pagination.LinkedPageBase{PageResult: r}
	return typePage{volumetypes.VolumeTypePage{LinkedPageBase: linked}}
}

// IsEmpty implements pagination.Page.
func (typePage) IsEmpty() (bool, error) { return false, nil }

const zonesKey = "availabilityZoneInfo"

// Zone is an availability zone.
type Zone struct {
	// Name consists of 1 to 255 arbitrary characters: quote it in messages.
	Name string
	// Available is true if the service accepts requests for the zone.
	Available bool
}

// ComputeZones returns the availability zones of servers in Nova's order, duplicates included.
func (c *Client) ComputeZones(ctx context.Context) ([]Zone, error) {
	return listing[computezones.AvailabilityZone, Zone]{
		nova(), zonesKey, computezones.List, computezones.ExtractAvailabilityZones,
		func(z computezones.AvailabilityZone) (string, Zone) {
			return z.ZoneName, Zone{z.ZoneName, z.ZoneState.Available}
		},
	}.fetch(ctx, c)
}

// VolumeZones returns the availability zones of volumes in Cinder's order, duplicates included.
func (c *Client) VolumeZones(ctx context.Context) ([]Zone, error) {
	return listing[volumezones.AvailabilityZone, Zone]{
		cinder(), zonesKey, volumezones.List, volumezones.ExtractAvailabilityZones,
		func(z volumezones.AvailabilityZone) (string, Zone) {
			return z.ZoneName, Zone{z.ZoneName, z.ZoneState.Available}
		},
	}.fetch(ctx, c)
}
