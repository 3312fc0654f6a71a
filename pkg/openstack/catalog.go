package openstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	volumeversions "github.com/gophercloud/gophercloud/v2/openstack/blockstorage/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
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
	// maxListed is how many places a message lists.
	maxListed = 10
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
		return "", s.notOffered(service, options)
	}
	if !usable(first) {
		return "", malformedURL(service)
	}
	s.service.Store(&service.label)
	found, err := openstack.V3Endpoint(ctx, s.provider, catalog, options)
	switch missing := (gophercloud.ErrEndpointNotFound{}); {
	case errors.As(err, &missing), isType[*gophercloud.ErrEndpointNotFound](err):
		return "", s.notOffered(service, options)
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

// usable returns whether requests and messages may contain a URL of the catalog. A variable that
// nobody replaced, such as %(tenant_id)s, makes it no URL.
func usable(raw string) bool {
	_, err := url.Parse(raw)
	return err == nil && len(raw) <= maxURL && validURL.MatchString(raw)
}

// notOffered says what the catalog lacks, and where it has the service instead.
func (s *session) notOffered(service Service, options gophercloud.EndpointOpts) *Error {
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
	var elsewhere, unsuitable []string
	for _, entry := range s.entries {
		for _, e := range entry.Endpoints {
			switch matches := e.Interface == string(options.Availability) &&
				slices.Contains([]string{"", e.Region, e.RegionID}, options.Region); {
			case !slices.Contains(options.Types(), entry.Type):
			case matches: // but its version
				unsuitable = append(unsuitable, entry.Type)
			default:
				elsewhere = append(elsewhere, clouds.Printable(e.Interface)+" in "+clouds.Printable(e.Region))
			}
		}
	}
	advice := ". If the cluster needs the service, ask the administrator of the cloud for it"
	switch elsewhere, unsuitable = distinct(elsewhere), distinct(unsuitable); {
	case len(elsewhere) > 0:
		advice = fmt.Sprintf(", but with %s: correct region_name or interface in clouds.yaml",
			strings.Join(elsewhere[:min(len(elsewhere), maxListed)], ", "))
	case len(unsuitable) > 0:
		advice = fmt.Sprintf(", only %s. Ask the administrator of the cloud for version %d of the API",
			strings.Join(unsuitable, ", "), service.version)
	}
	return errorf(NotOffered, "OpenStack at %s offers no %s: its catalog has no %s%s",
		redactedURL(s.access.AuthURL), service.name, where, advice)
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

// shareVersions reads the microversions as the driver of Manila does. Without them, the driver does
// not work.
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
