package openstack

import (
	"cmp"
	"context"
	"net/url"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// service is an OpenStack service that requests are sent to.
type service struct {
	// name names the service in messages.
	name string
	// types are its types in catalogs, by precedence.
	types []string
	// majorVersion is the version of its API, which endpoint URLs contain.
	majorVersion string
	// label names the service in metrics.
	label string
}

// Many catalogs list a service several times: under its official type and older types, and for each
// version of its API.
func manila() service {
	types := []string{"sharev2", "shared-file-system", "share"}
	return service{"shared file system service (Manila)", types, "2", "Manila"}
}

func nova() service {
	return service{"compute service (Nova)", []string{"compute"}, "2", "Nova"}
}

// The driver finds Cinder under these types; under volumev2 it would not use version 3.
func cinder() service {
	types := []string{"volumev3", "block-storage", "block-store", "volume"}
	return service{"block storage service (Cinder)", types, "3", "Cinder"}
}

const maxURL = 1024

var (
	// versionElement matches the path element of a URL that contains the version of the API.
	versionElement = regexp.MustCompile(`^v(\d+)(?:\.\d+)?$`)
	// validURL matches the URLs of a catalog that may become part of messages.
	validURL = regexp.MustCompile(`^https?://[A-Za-z0-9._:\[\]-]+(?:/[A-Za-z0-9._~%$()/:@=,+-]*)?$`)
)

// endpoint finds a service in the catalog. It refreshes the catalog once before it returns an error
// with the reason NotOffered.
func (s *session) endpoint(ctx context.Context, service service) (*gophercloud.ServiceClient,
	error,
) {
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
	s.service.Store(&service.label)
	return &gophercloud.ServiceClient{
		ProviderClient: s.provider, Endpoint: found, Type: service.types[0],
	}, nil
}

// newEndpoint refreshes the catalog after a failed request, and returns the endpoint of the service
// if it has changed.
func (s *session) newEndpoint(
	ctx context.Context, from *gophercloud.ServiceClient, service service,
) (*gophercloud.ServiceClient, bool) {
	if s.fresh || s.refreshCatalog(ctx) != nil {
		return nil, false
	}
	to, err := s.endpoint(ctx, service)
	return to, err == nil && to.Endpoint != from.Endpoint
}

// lookup finds the endpoint URL of a service in the catalog. A URL with the right version precedes
// one without a version, and a URL with another version is ignored. gophercloud's constructors
// would read the version document of the service, which is one more request for each probe.
func (s *session) lookup(service service) (string, error) {
	fallback, malformed := "", false
	for _, found := range s.endpointURLs(service) {
		switch major := majorVersion(found); {
		case len(found) > maxURL || !validURL.MatchString(found):
			malformed = true
		case major == service.majorVersion:
			return gophercloud.NormalizeURL(found), nil
		case major == "" && fallback == "":
			fallback = gophercloud.NormalizeURL(found)
		}
	}
	switch {
	case fallback != "":
		return fallback, nil
	case malformed:
		return "", errorf(CloudUnreachable, "OpenStack's catalog contains an address of the %s that is "+
			"not an http or https URL. Ask the cloud's administrator to fix the catalog", service.name)
	}
	cloud := s.access.cloud
	region := ""
	if cloud.RegionName != "" {
		region = " in region " + cloud.RegionName
	}
	return "", errorf(NotOffered, "OpenStack at %s offers no %s: its catalog has no %s%s",
		redactedURL(cloud.AuthInfo.AuthURL), service.name, service.types[0], region)
}

// endpointURLs returns the URLs in the catalog of a service, restricted to the region and interface
// of clouds.yaml, by precedence of the service's types.
func (s *session) endpointURLs(service service) []string {
	cloud := s.access.cloud
	kind := cmp.Or(cloud.Availability(), string(gophercloud.AvailabilityPublic))
	var found []string
	for _, name := range service.types {
		for _, entry := range s.entries {
			if entry.Type != name {
				continue
			}
			for _, e := range entry.Endpoints {
				inRegion := cloud.RegionName == "" || cloud.RegionName == e.Region ||
					cloud.RegionName == e.RegionID
				if e.Interface == kind && inRegion {
					found = append(found, e.URL)
				}
			}
		}
	}
	return found
}

// majorVersion returns the version of the API in the path of a URL, "" if there is none.
func majorVersion(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	for element := range strings.SplitSeq(u.Path, "/") {
		if m := versionElement.FindStringSubmatch(element); m != nil {
			return m[1]
		}
	}
	return ""
}
