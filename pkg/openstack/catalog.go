package openstack

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// service is an OpenStack service that questions are put to.
type service struct {
	// words name it in messages.
	words string
	// types are what catalogs call it, the best first.
	types []string
	// major is the version of its API, which addresses contain.
	major string
}

// Many catalogs list a service several times, under the official type and older ones, for each version of its API.
func manila() service {
	return service{"shared file system service (Manila)", []string{"sharev2", "shared-file-system", "share"}, "2"}
}

func nova() service {
	return service{"compute service (Nova)", []string{"compute"}, "2"}
}

func cinder() service {
	return service{"block storage service (Cinder)", []string{"volumev3", "block-storage"}, "3"}
}

// maxAddress is how long an address in the catalog may be.
const maxAddress = 1024

var (
	// versionElement is the part of an address that says which version of an API it leads to.
	versionElement = regexp.MustCompile(`^v(\d+)(?:\.\d+)?$`)
	// address is what a URL in a catalog looks like. It goes into messages.
	address = regexp.MustCompile(`^https?://[A-Za-z0-9._:\[\]-]+(?:/[A-Za-z0-9._~%$()/:@=,+-]*)?$`)
)

// endpoint finds a service in the catalog, asking for a new catalog before it says that there is none.
func (s *session) endpoint(ctx context.Context, service service) (*gophercloud.ServiceClient, error) {
	found, err := s.lookup(service)
	if ReasonOf(err) == NotOffered && !s.fresh {
		if err := s.refreshCatalog(ctx); err != nil {
			return nil, err
		}
		found, err = s.lookup(service)
	}
	if err != nil {
		return nil, err
	}
	return &gophercloud.ServiceClient{ProviderClient: s.provider, Endpoint: found, Type: service.types[0]}, nil
}

// moved asks for a new catalog when an endpoint does not answer, and returns the service's new one if it has another.
func (s *session) moved(ctx context.Context, from *gophercloud.ServiceClient, service service) (*gophercloud.ServiceClient, bool) {
	if s.fresh || s.refreshCatalog(ctx) != nil {
		return nil, false
	}
	to, err := s.endpoint(ctx, service)
	return to, err == nil && to.Endpoint != from.Endpoint
}

// lookup does not ask the service which versions it has, as gophercloud's own constructors do: that is a call a poll too much. An
// address with the version wins over one without any, and one with another version does not count.
func (s *session) lookup(service service) (string, error) {
	fallback, malformed := "", false
	for _, found := range s.addresses(service) {
		switch major := majorOf(found); {
		case len(found) > maxAddress || !address.MatchString(found):
			malformed = true
		case major == service.major:
			return gophercloud.NormalizeURL(found), nil
		case major == "" && fallback == "":
			fallback = gophercloud.NormalizeURL(found)
		}
	}
	switch {
	case fallback != "":
		return fallback, nil
	case malformed:
		return "", &Error{CloudUnreachable, fmt.Sprintf("OpenStack's catalog has an address of the %s that is no http or https URL. "+
			"Ask the cloud's administrator to correct the catalog", service.words)}
	}
	cloud := s.access.cloud
	return "", &Error{NotOffered, fmt.Sprintf("OpenStack at %s offers no %s: its catalog has no %s%s",
		place(cloud.AuthInfo.AuthURL), service.words, service.types[0], inRegion(cloud.RegionName))}
}

// addresses returns what the catalog has for the service in the region and interface of clouds.yaml, the best type first.
func (s *session) addresses(service service) []string {
	cloud := s.access.cloud
	kind := cloud.Availability()
	if kind == "" {
		kind = string(gophercloud.AvailabilityPublic)
	}
	var found []string
	for _, name := range service.types {
		for _, entry := range s.entries {
			if entry.Type != name {
				continue
			}
			for _, e := range entry.Endpoints {
				if e.Interface == kind && (cloud.RegionName == "" || slices.Contains([]string{e.Region, e.RegionID}, cloud.RegionName)) {
					found = append(found, e.URL)
				}
			}
		}
	}
	return found
}

// majorOf returns the version of the API that an address leads to, "" if the address does not say.
func majorOf(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	for _, element := range strings.Split(u.Path, "/") {
		if m := versionElement.FindStringSubmatch(element); m != nil {
			return m[1]
		}
	}
	return ""
}

func inRegion(region string) string {
	if region == "" {
		return ""
	}
	return " in region " + region
}
