package openstack

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gophercloud/gophercloud/v2"
)

// Limits of a list: more than real clouds need, and the size of names in OpenStack's databases.
const (
	maxItems = 1000
	maxName  = 255
	// maxTypes is the maximum number of share types, volume types, volumes or servers. The
	// administrator can choose among all types, so it is larger than the number of StorageClasses of
	// an operator.
	maxTypes = 10_000
	// shareZonesVersion is the first microversion with the list of zones at its present path.
	shareZonesVersion = "2.7"
)

// TooManyError returns the error about a list that is longer than the limit.
func TooManyError(limit int) error {
	return describef("it lists more than %d items, which is more than the operator accepts. "+
		"Ask the cloud's administrator to show fewer to this project", limit)
}

// read sends a GET request for a list, and decodes the fields that the caller needs. gophercloud's
// pagers would keep all fields as maps, 23 MB for 5,000 share types, and follow links to any host.
func read(
	ctx context.Context, endpoint *gophercloud.ServiceClient, path string, answer any,
) error {
	url := endpoint.ServiceURL(path)
	_, err := endpoint.Get(withLongBody(ctx), url, answer, nil) //nolint:bodyclose // it closes it
	return err
}

// checked converts the items of a list, which is nil if the answer contains none. OpenStack returns
// no item without a name or with a name longer than maxName.
func checked[T, R any](list *[]T, limit int, convert func(T) (name string, result R)) ([]R, error) {
	switch {
	case list == nil:
		return nil, lacks("list")
	case len(*list) > limit:
		return nil, TooManyError(limit)
	}
	results := make([]R, 0, len(*list))
	for _, item := range *list {
		name, result := convert(item)
		if name == "" || utf8.RuneCountInString(name) > maxName {
			return nil, lacks("name of an item, of 1 to 255 characters")
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
	// OtherProtocol is the first protocol in the extra spec storage_protocol of a share type that does
	// not serve NFS, and "" for others. Most clouds show it to their administrators only.
	OtherProtocol string
}

// otherProtocols matches an extra spec that requires a protocol other than NFS.
var otherProtocols = regexp.MustCompile(
	`(?i)^\s*((<in>|<or>|s==)\s*)?(CEPHFS|CIFS|GLUSTERFS|HDFS|MAPRFS)`)

// foundType contains the fields of a share type or a volume type that the operator reads.
type foundType struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	ExtraSpecs struct {
		// ShareServers is what somebody wrote. Without it the type is one of the usual kind.
		ShareServers any `json:"driver_handles_share_servers"`
		// The scheduler compares both spellings with what a back end serves, such as NFS_CIFS.
		Protocol       any `json:"storage_protocol"`
		ScopedProtocol any `json:"capabilities:storage_protocol"`
	} `json:"extra_specs"`
}

func (t foundType) convert() (string, Type) {
	text := strings.ToLower(strings.TrimSpace(fmt.Sprint(t.ExtraSpecs.ShareServers)))
	text = strings.TrimSpace(strings.TrimPrefix(text, "<is>"))
	// As bool_from_string of oslo.utils, which Manila calls.
	managed := slices.Contains([]string{"1", "t", "true", "on", "y", "yes"}, text)
	found := Type{Name: t.Name, NeedsNetwork: managed}
	for _, spec := range []any{t.ExtraSpecs.ScopedProtocol, t.ExtraSpecs.Protocol} {
		protocol := fmt.Sprint(spec)
		match := otherProtocols.FindStringSubmatch(protocol)
		if match != nil && !strings.Contains(strings.ToUpper(protocol), "NFS") {
			found.OtherProtocol = strings.ToUpper(match[len(match)-1])
		}
	}
	return t.Name, found
}

// ShareTypes returns the share types that Manila offers to the project, in Manila's order, at most
// 10,000. If the cloud has no Manila, the error has the reason NotOffered. Manila answers with all
// types at once.
func (c *Client) ShareTypes(ctx context.Context) (types []Type, err error) {
	err = c.call(ctx, Manila(), func(endpoint *gophercloud.ServiceClient) (err error) {
		var answer struct {
			Types *[]foundType `json:"share_types"`
		}
		if err := read(ctx, endpoint, "types", &answer); err != nil {
			return err
		}
		types, err = checked(answer.Types, maxTypes, foundType.convert)
		return err
	})
	return types, err
}

// VolumeTypes returns the volume types that Cinder offers to the project, in Cinder's order: those
// that are public, and those that the project was given access to, at most 10,000.
func (c *Client) VolumeTypes(ctx context.Context) ([]Type, error) {
	id := func(t foundType) string { return t.ID }
	return pages(ctx, c, Cinder(), list[foundType, Type]{"types?", id, foundType.convert})
}

// Volume is a volume of Cinder, or a snapshot. Its fields are from the cloud; the ID of a volume is
// safe in URLs and messages.
type Volume struct {
	ID, Name, Status string
	// Size is in GiB.
	Size     int
	Metadata map[string]string
	// Attachments are the servers that the volume is attached to.
	Attachments []Attachment
	// UpdatedAt is the time of the last change of the status or another field, in UTC.
	UpdatedAt string `json:"updated_at"`
}

// Attachment is that of a volume to a server.
type Attachment struct {
	ID       string `json:"attachment_id"`
	ServerID string `json:"server_id"`
}

// Changed returns when the status or another field of a volume changed last, zero if that is not
// known. Shares have no such time.
func (v Volume) Changed() time.Time {
	at, _ := parseIdentityTime(v.UpdatedAt) // the zero time on an error
	return at
}

// Volumes calls do for each volume of the project, at most 10,000. If an answer fails, it may do so
// again.
func (c *Client) Volumes(ctx context.Context, do func(Volume)) error {
	id := func(v Volume) string { return v.ID }
	_, err := pages(ctx, c, Cinder(), list[Volume, struct{}]{
		"volumes/detail?limit=500", id, func(v Volume) (string, struct{}) {
			do(v)
			return v.ID, struct{}{}
		},
	})
	return err
}

// Servers returns the IDs of all servers of the project, at most 10,000.
func (c *Client) Servers(ctx context.Context) ([]string, error) {
	type server struct{ ID string }
	id := func(s server) string { return s.ID }
	return pages(ctx, c, Nova(), list[server, string]{
		"servers?", id, func(s server) (string, string) { return s.ID, s.ID },
	})
}

// list is a list in pages, whose path has a query. id returns the ID of an item, convert what
// checked needs.
type list[T, R any] struct {
	path    string
	id      func(T) string
	convert func(T) (string, R)
}

// pages returns the items of all pages of a list of Cinder or Nova.
func pages[T, R any](
	ctx context.Context, c *Client, service Service, of list[T, R],
) (all []R, err error) {
	err = c.call(ctx, service, func(endpoint *gophercloud.ServiceClient) error {
		all = []R{}
		for next := of.path; next != ""; {
			var page struct {
				Types   *[]T `json:"volume_types"`
				Volumes *[]T `json:"volumes"`
				Servers *[]T `json:"servers"`
				// Links to the next page, if any.
				TypeLinks   []any `json:"volume_type_links"`
				VolumeLinks []any `json:"volumes_links"`
				ServerLinks []any `json:"servers_links"`
			}
			if err := read(ctx, endpoint, next, &page); err != nil {
				return err
			}
			items := cmp.Or(page.Types, page.Volumes, page.Servers)
			more, err := checked(items, maxTypes, of.convert)
			if err != nil {
				return err
			}
			if all, next = append(all, more...), ""; len(all) > maxTypes {
				return TooManyError(maxTypes)
			}
			if len(more) > 0 && len(page.TypeLinks)+len(page.VolumeLinks)+len(page.ServerLinks) > 0 {
				next = of.path + "&marker=" + url.QueryEscape(of.id((*items)[len(more)-1]))
			}
		}
		return nil
	})
	return all, err
}

// Zone is an availability zone.
type Zone struct {
	// Name consists of 1 to 255 arbitrary characters: quote it in messages.
	Name string
	// Available is true if the service accepts requests for the zone.
	Available bool `json:"-"`
}

// ComputeZones returns the availability zones of servers in Nova's order, duplicates included.
func (c *Client) ComputeZones(ctx context.Context) ([]Zone, error) { return c.zones(ctx, Nova()) }

// VolumeZones returns the availability zones of volumes in Cinder's order, duplicates included.
func (c *Client) VolumeZones(ctx context.Context) ([]Zone, error) { return c.zones(ctx, Cinder()) }

// ShareZones returns zones of shares in Manila's order. Manila does not say which are available.
func (c *Client) ShareZones(ctx context.Context) (zones []Zone, err error) {
	err = c.call(ctx, Manila(), func(endpoint *gophercloud.ServiceClient) (err error) {
		versioned := *endpoint
		versioned.Microversion = shareZonesVersion
		var answer struct {
			Zones *[]Zone `json:"availability_zones"`
		}
		if err := read(ctx, &versioned, "availability-zones", &answer); err != nil {
			return err
		}
		zones, err = checked(answer.Zones, maxItems, func(z Zone) (string, Zone) {
			return z.Name, Zone{z.Name, true}
		})
		return err
	})
	return zones, err
}

func (c *Client) zones(ctx context.Context, service Service) (zones []Zone, err error) {
	type found struct {
		Name  string `json:"zoneName"`
		State struct {
			Available bool `json:"available"`
		} `json:"zoneState"`
	}
	err = c.call(ctx, service, func(endpoint *gophercloud.ServiceClient) (err error) {
		var answer struct {
			Zones *[]found `json:"availabilityZoneInfo"`
		}
		if err := read(ctx, endpoint, "os-availability-zone", &answer); err != nil {
			return err
		}
		zones, err = checked(answer.Zones, maxItems, func(z found) (string, Zone) {
			return z.Name, Zone{z.Name, z.State.Available}
		})
		return err
	})
	return zones, err
}
