package openstack

import (
	"context"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/gophercloud/gophercloud/v2"
	volumezones "github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumetypes"
	computezones "github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/pagination"
)

// Limits of a list: more than real clouds need, and the size of names in OpenStack's databases.
const (
	maxItems = 1000
	maxName  = 255
	// maxTypes is the maximum number of share types or volume types. The administrator can choose
	// among all of them, so it is larger than the number of StorageClasses that an operator creates.
	maxTypes = 10_000
)

// tooManyError means that a list has more items than this number.
type tooManyError int

func (n tooManyError) Error() string { return fmt.Sprintf("more than %d items in a list", int(n)) }

type listing[T, R any] struct {
	service Service
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
		return nil, tooManyError(maxItems)
	}
	results := make([]R, 0, len(found))
	for _, f := range found {
		name, result := l.convert(f)
		if !isName(name) {
			return nil, errNotOpenStack
		}
		results = append(results, result)
	}
	return results, nil
}

func isName(name string) bool { return name != "" && utf8.RuneCountInString(name) <= maxName }

// Type is a share type or a volume type.
type Type struct {
	// Name consists of 1 to 255 arbitrary characters: quote it in messages.
	Name string
	// NeedsNetwork is true if Manila creates a share of the type only in a share network.
	NeedsNetwork bool
}

// shareType contains the fields of a share type that the operator reads.
type shareType struct {
	Name       string `json:"name"`
	ExtraSpecs struct {
		// ShareServers is "True" or "False". Without it the type is one of the usual kind.
		ShareServers any `json:"driver_handles_share_servers"`
	} `json:"extra_specs"`
}

// ShareTypes returns the share types that Manila offers to the project, in Manila's order, at most
// 10,000. If the cloud has no Manila, the error has the reason NotOffered.
//
// Manila answers with all types at once. gophercloud's pager would keep all fields as maps, 23 MB
// for 5,000 types.
func (c *Client) ShareTypes(ctx context.Context) (types []Type, err error) {
	err = c.call(ctx, Manila(), func(endpoint *gophercloud.ServiceClient) error {
		var answer struct {
			Types *[]shareType `json:"share_types"`
		}
		url := endpoint.ServiceURL("types")
		_, err := endpoint.Get(withLongBody(ctx), url, &answer, nil) //nolint:bodyclose // it closes it
		switch {
		case err != nil:
			return err
		case answer.Types == nil:
			return errNotOpenStack
		case len(*answer.Types) > maxTypes:
			return tooManyError(maxTypes)
		}
		types = make([]Type, 0, len(*answer.Types))
		for _, found := range *answer.Types {
			if !isName(found.Name) {
				return errNotOpenStack
			}
			managed, _ := strconv.ParseBool(fmt.Sprint(found.ExtraSpecs.ShareServers))
			types = append(types, Type{found.Name, managed})
		}
		return nil
	})
	return types, err
}

// VolumeTypes returns the volume types that Cinder offers to the project, in Cinder's order: those
// that are public, and those that the project was given access to, at most 10,000.
func (c *Client) VolumeTypes(ctx context.Context) (types []Type, err error) {
	convert := func(t volumetypes.VolumeType) (string, Type) { return t.Name, Type{Name: t.Name} }
	l := listing[volumetypes.VolumeType, Type]{
		service: Cinder(), key: "volume_types", extract: volumetypes.ExtractVolumeTypes, convert: convert,
	}
	err = c.call(ctx, l.service, func(endpoint *gophercloud.ServiceClient) error {
		types = []Type{}
		pager := volumetypes.List(endpoint, volumetypes.ListOpts{}).WithPageCreator(newTypePage)
		return pager.EachPage(ctx, func(_ context.Context, page pagination.Page) (bool, error) {
			more, err := l.items(page.(typePage).VolumeTypePage)
			if types = append(types, more...); err == nil && len(types) > maxTypes {
				err = tooManyError(maxTypes)
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
		Nova(), zonesKey, computezones.List, computezones.ExtractAvailabilityZones,
		func(z computezones.AvailabilityZone) (string, Zone) {
			return z.ZoneName, Zone{z.ZoneName, z.ZoneState.Available}
		},
	}.fetch(ctx, c)
}

// VolumeZones returns the availability zones of volumes in Cinder's order, duplicates included.
func (c *Client) VolumeZones(ctx context.Context) ([]Zone, error) {
	return listing[volumezones.AvailabilityZone, Zone]{
		Cinder(), zonesKey, volumezones.List, volumezones.ExtractAvailabilityZones,
		func(z volumezones.AvailabilityZone) (string, Zone) {
			return z.ZoneName, Zone{z.ZoneName, z.ZoneState.Available}
		},
	}.fetch(ctx, c)
}
