package openstack

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
)

const (
	maxListed = 10
	// maxTried is how many places are tried for a message.
	maxTried = 100
)

// notOffered says what the catalog lacks, and where it has the service instead.
func (s *session) notOffered(
	ctx context.Context, service Service, options gophercloud.EndpointOpts,
) *Error {
	where := service.kind
	for _, kind := range options.Types() { // most clouds use this type
		if strings.HasSuffix(kind, fmt.Sprintf("v%d", service.version)) {
			where += " (" + kind + ")"
		}
	}
	if options.Availability != gophercloud.AvailabilityPublic {
		where += " with interface " + string(options.Availability)
	}
	if options.Region != "" {
		where += " in region " + regionName(options.Region)
	}
	advice := ". If the cluster needs the service, ask the administrator of the cloud for it"
	switch elsewhere, unsuitable := s.others(ctx, options); {
	case len(elsewhere) > 0:
		advice = fmt.Sprintf(", but with %s: correct region_name or interface in clouds.yaml",
			strings.Join(elsewhere[:min(len(elsewhere), maxListed)], ", "))
	case len(unsuitable) > 0:
		advice = fmt.Sprintf(", only %s, and the driver needs version %d of its API. Ask the "+
			"administrator of the cloud for it", strings.Join(unsuitable, ", "), service.version)
	}
	return errorf(NotOffered, "OpenStack at %s offers no %s: its catalog has no %s%s",
		redactedURL(s.access.AuthURL), service.name, where, advice)
}

// others returns the regions and interfaces with which the drivers find the service, and the types
// in the catalog that have only another version of it. It tries a limited number of them.
func (s *session) others(
	ctx context.Context, options gophercloud.EndpointOpts,
) (elsewhere, unsuitable []string) {
	ctx, cancel := context.WithTimeout(ctx, versionsTimeout)
	defer cancel()
	types := map[[2]string][]string{} // of a region and an interface
	for _, entry := range s.entries {
		for _, e := range entry.Endpoints {
			if place := [2]string{cmp.Or(e.Region, e.RegionID), e.Interface}; len(types) < maxTried &&
				slices.Contains(options.Types(), entry.Type) {
				types[place] = append(types[place], entry.Type)
			}
		}
	}
	for place, names := range types {
		options.Region, options.Availability = place[0], gophercloud.Availability(place[1])
		switch _, found, err := s.pick(ctx, options); {
		case err == nil && usable(found):
			region := " without region_name"
			if place[0] != "" {
				region = " in " + clouds.Printable(place[0])
			}
			elsewhere = append(elsewhere, place[1]+region)
		case isAbsent(err):
			unsuitable = append(unsuitable, names...)
		}
	}
	return distinct(elsewhere), distinct(unsuitable)
}

func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// regionName returns the name of a region for messages.
func regionName(name string) string {
	if trimmed := strings.TrimSpace(name); trimmed != name {
		return clouds.Printable(trimmed) + " with a space or a line break beside the name, which does " +
			"not belong there"
	}
	return clouds.Printable(name)
}
