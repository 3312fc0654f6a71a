package openstack

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	volumeversions "github.com/gophercloud/gophercloud/v2/openstack/blockstorage/apiversions"
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
	// versions returns the microversions that the service supports, "" if it names none.
	versions func(context.Context, *gophercloud.ServiceClient) (low, high string, err error)
	// advice is what to do if the service does not support the microversion.
	advice string
}

// Manila returns the service of shares, with the microversion that its driver requires.
func Manila() Service {
	return Service{
		name: "shared file system service (Manila)", label: "Manila", kind: "shared-file-system",
		version: 2, microversion: "2.37", versions: shareVersions,
	}
}

// Nova returns the service of servers.
func Nova() Service {
	return Service{name: "compute service (Nova)", label: "Nova", kind: "compute", version: 2}
}

// Cinder returns the service of volumes. Its driver uses the microversion to find a volume by name.
func Cinder() Service {
	return Service{
		name: "block storage service (Cinder)", label: "Cinder", kind: "block-storage", version: 3,
		microversion: "3.34", versions: volumeVersions, advice: ". Ask the administrator of the cloud " +
			"for a newer Cinder",
	}
}

// AnyMicroversion returns the service for a driver that uses no microversion.
func (s Service) AnyMicroversion() Service {
	s.microversion = ""
	return s
}

// Advised returns the service with more advice for a cloud that does not support the microversion.
func (s Service) Advised(advice string) Service {
	s.advice += advice
	return s
}

// String returns a text that differs for different requirements.
func (s Service) String() string { return s.label + " " + s.microversion }

const (
	maxURL = 1024
	// versionsTimeout limits a request that is only for a better message.
	versionsTimeout = 5 * time.Second
)

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
	s.used[service.label] = found
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
	options := gophercloud.EndpointOpts{
		Region: s.access.Region, Availability: gophercloud.Availability(s.access.Interface),
		Version: service.version,
	}
	options.ApplyDefaults(service.kind)
	s.service.Store(&service.label)
	first, found, err := s.pick(ctx, options)
	switch {
	case isAbsent(err):
		return "", s.notOffered(ctx, service, options)
	case err != nil && statusOf(err) == 0 && !isType[*url.Error](err):
		return "", unreachable(service.name, first, lacks("version document that can be read"))
	case err != nil:
		return "", callError(service.name, first, s.access, err)
	case !usable(found):
		return "", malformedURL(service)
	}
	s.found[service.label] = found
	return found, nil
}

// pick returns the URL of the endpoint that the drivers use, and the first one that they consider.
func (s *session) pick(
	ctx context.Context, options gophercloud.EndpointOpts,
) (first, found string, err error) {
	catalog := &tokens.ServiceCatalog{Entries: s.entries}
	first, err = openstack.V3EndpointURL(catalog, options)
	if err != nil || !usable(first) {
		return first, first, err
	}
	found, err = openstack.V3Endpoint(ctx, s.provider, catalog, options)
	return first, found, err
}

// isAbsent returns whether the catalog contains no endpoint of the service and its version.
func isAbsent(err error) bool {
	return isType[gophercloud.ErrEndpointNotFound](err) ||
		isType[*gophercloud.ErrEndpointNotFound](err)
}

// usable returns whether requests and messages may contain a URL of the catalog. A variable that
// nobody replaced, such as %(tenant_id)s, makes it no URL.
func usable(raw string) bool {
	_, err := url.Parse(raw)
	return err == nil && len(raw) <= maxURL && validURL.MatchString(raw)
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
	from, to, err := service.versions(ctx, client)
	if err != nil {
		return callError(service.name, endpoint, s.access, err)
	}
	if to == "" {
		return nil
	}
	var offered utils.SupportedMicroversions
	var low, high error
	offered.MinMajor, offered.MinMinor, low = utils.ParseMicroversion(from)
	offered.MaxMajor, offered.MaxMinor, high = utils.ParseMicroversion(to)
	supported, err := offered.IsSupported(service.microversion)
	switch {
	case errors.Join(low, high, err) != nil:
		return unreachable(service.name, endpoint, lacks("versions that can be read"))
	case !supported:
		return errorf(NotOffered, "OpenStack's %s at %s supports versions %s to %s of its API, and the "+
			"driver needs %s%s", service.name, redactedURL(endpoint), from, to, service.microversion,
			service.advice)
	}
	return nil
}

// shareVersions reads the microversions as the driver of Manila does, which needs them.
func shareVersions(
	ctx context.Context, client *gophercloud.ServiceClient,
) (low, high string, err error) {
	found, err := apiversions.Get(ctx, client, "v2").Extract()
	if err != nil {
		return "", "", err
	}
	return found.MinVersion, cmp.Or(found.Version, "none"), nil
}

// volumeVersions reads the microversions at the URL without a version, which needs no token and so
// no access rule. The driver of Cinder does not read them, and some clouds serve nothing there or
// know no microversions: then nothing is known.
func volumeVersions(
	ctx context.Context, client *gophercloud.ServiceClient,
) (low, high string, err error) {
	ctx, cancel := context.WithTimeout(ctx, versionsTimeout)
	defer cancel()
	base, err := utils.BaseEndpoint(client.Endpoint)
	if err != nil {
		return "", "", nil
	}
	var answer struct{ Versions []volumeversions.APIVersion }
	_, err = client.Get(ctx, gophercloud.NormalizeURL(base), &answer, //nolint:bodyclose // closed
		&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK, http.StatusMultipleChoices}})
	for _, version := range answer.Versions {
		if err == nil && strings.HasPrefix(version.ID, "v3") {
			return version.MinVersion, version.Version, nil
		}
	}
	return "", "", nil
}
