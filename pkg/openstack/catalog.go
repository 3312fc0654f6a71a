package openstack

import (
	"context"
	"errors"
	"net/url"
	"regexp"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"
)

// Service is an OpenStack service that requests are sent to.
type Service struct {
	// name names the service in messages, label in metrics.
	name, label string
	// kind is its official type in catalogs, and version the major version of its API.
	kind    string
	version int
	// microversion is the microversion that the driver uses, "" if it does not set one.
	microversion string
}

// Manila returns the service of shares, with the microversion that its driver requires.
func Manila() Service {
	return Service{"shared file system service (Manila)", "Manila", "shared-file-system", 2, "2.37"}
}

// Nova returns the service of servers.
func Nova() Service { return Service{"compute service (Nova)", "Nova", "compute", 2, ""} }

// Cinder returns the service of volumes.
func Cinder() Service {
	return Service{"block storage service (Cinder)", "Cinder", "block-storage", 3, ""}
}

const maxURL = 1024

// validURL matches the URLs of a catalog that may become part of messages.
var validURL = regexp.MustCompile(`^https?://[A-Za-z0-9._:\[\]-]+(?:/[A-Za-z0-9._~%$()/:@=,+-]*)?$`)

// endpoint finds a service in the catalog. It refreshes the catalog once before it returns an error
// with the reason NotOffered.
func (s *session) endpoint(ctx context.Context, service Service) (*gophercloud.ServiceClient,
	error,
) {
	found, err := s.lookup(ctx, service)
	if ReasonOf(err) == NotOffered && !s.fresh {
		if err := s.refreshCatalog(ctx); err != nil {
			return nil, err
		}
		found, err = s.lookup(ctx, service)
	}
	if err != nil {
		return nil, err
	}
	s.service.Store(&service.label)
	return &gophercloud.ServiceClient{
		ProviderClient: s.provider, Endpoint: found, Type: service.kind,
	}, nil
}

// newEndpoint refreshes the catalog after a failed request, and returns the endpoint of the service
// if it has changed.
func (s *session) newEndpoint(
	ctx context.Context, from *gophercloud.ServiceClient, service Service,
) (*gophercloud.ServiceClient, bool) {
	if s.fresh || s.refreshCatalog(ctx) != nil {
		return nil, false
	}
	to, err := s.endpoint(ctx, service)
	return to, err == nil && to.Endpoint != from.Endpoint
}

// lookup finds the endpoint of a service with the functions of the drivers, once for each catalog:
// they read the version document of the service if the URL contains no version.
func (s *session) lookup(ctx context.Context, service Service) (string, error) {
	if found := s.found[service.label]; found != "" {
		return found, nil
	}
	catalog := &tokens.ServiceCatalog{Entries: s.entries}
	options := gophercloud.EndpointOpts{
		Region: s.access.Region, Availability: gophercloud.Availability(s.access.Interface),
		Version: service.version,
	}
	options.ApplyDefaults(service.kind)
	first, err := openstack.V3EndpointURL(catalog, options)
	if err != nil {
		return "", s.notOffered(service)
	}
	if len(first) > maxURL || !validURL.MatchString(first) {
		return "", malformedURL(service)
	}
	s.service.Store(&service.label)
	found, err := openstack.V3Endpoint(ctx, s.provider, catalog, options)
	switch missing := (gophercloud.ErrEndpointNotFound{}); {
	case errors.As(err, &missing), isType[*gophercloud.ErrEndpointNotFound](err):
		return "", s.notOffered(service)
	case err != nil && statusOf(err) == 0 && !isType[*url.Error](err):
		return "", unreachable(service.name, first, errNotOpenStack) // a version document of another kind
	case err != nil:
		return "", callError(service.name, first, s.access, err)
	case len(found) > maxURL || !validURL.MatchString(found):
		return "", malformedURL(service)
	}
	s.found[service.label] = found
	return found, nil
}

func (s *session) notOffered(service Service) *Error {
	region := ""
	if s.access.Region != "" {
		region = " in region " + printableName(s.access.Region)
	}
	return errorf(NotOffered, "OpenStack at %s offers no %s: its catalog has no %s%s",
		redactedURL(s.access.AuthURL), service.name, service.kind, region)
}

func malformedURL(service Service) *Error {
	return errorf(CloudUnreachable, "OpenStack's catalog contains an address of the %s that is "+
		"not an http or https URL. Ask the cloud's administrator to fix the catalog", service.name)
}

// checkVersion returns an error if the service does not support the microversion of the driver.
func (s *session) checkVersion(
	ctx context.Context, service Service, client *gophercloud.ServiceClient,
) error {
	if service.microversion == "" {
		return nil
	}
	endpoint := client.Endpoint
	found, err := apiversions.Get(ctx, client, "v2").Extract()
	if err != nil {
		return callError(service.name, endpoint, s.access, err)
	}
	var offered utils.SupportedMicroversions
	var low, high error
	offered.MinMajor, offered.MinMinor, low = utils.ParseMicroversion(found.MinVersion)
	offered.MaxMajor, offered.MaxMinor, high = utils.ParseMicroversion(found.Version)
	supported, err := offered.IsSupported(service.microversion)
	switch {
	case errors.Join(low, high, err) != nil:
		return unreachable(service.name, endpoint, errNotOpenStack)
	case !supported:
		return errorf(NotOffered, "OpenStack's %s at %s supports versions %s to %s of its API, and the "+
			"driver needs %s", service.name, redactedURL(endpoint), found.MinVersion, found.Version,
			service.microversion)
	}
	return nil
}
