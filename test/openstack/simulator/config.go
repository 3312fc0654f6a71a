package simulator

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"
)

// Service is one of the simulated OpenStack services; it is also the first element of the service's
// URL path.
type Service string

// The simulated services.
const (
	Identity Service = "identity"
	Share    Service = "share"
	Compute  Service = "compute"
	Volume   Service = "volume"
)

// Services lists the simulated services in catalog order.
func Services() []Service { return []Service{Identity, Share, Compute, Volume} }

// DefaultRegion is the region of a cloud that names none.
const DefaultRegion = "RegionOne"

const (
	loopback        = "127.0.0.1:0"
	defaultTokenTTL = time.Hour
	defaultLogLimit = 10_000
	defaultZone     = "nova"
	manilaMinimum   = "2.0"
	manilaMaximum   = "2.78"
)

// Config describes a cloud. The zero value is a good one: plain HTTP, free ports, region RegionOne,
// one availability zone "nova", no share type, and random secrets.
type Config struct {
	// Listen is the address of the services, "127.0.0.1:0" if empty; port 0 picks a free one.
	Listen string
	// Control is the address of the control API, "127.0.0.1:0" if empty.
	Control string
	// SeparatePorts gives each service a listener of its own, so that faults about connections hit
	// that service alone. Identity gets the port of Listen, the others get free ports.
	SeparatePorts bool
	// AdvertisedHost replaces the host of Listen in every URL handed out, for clients that come
	// through a proxy.
	AdvertisedHost string
	// TLS serves HTTPS with a certificate of a private CA made for this cloud; see Client.CA.
	TLS bool
	// Regions of the catalog; the first is the default one. Services of further regions have the
	// region's name as first element of their path, and Request.Region tells which one a client has
	// chosen.
	Regions []string
	// ShareTypes that exist from the start.
	ShareTypes []ShareType
	// ComputeZones and VolumeZones are the availability zones of Nova and Cinder; one called nova if
	// empty.
	ComputeZones, VolumeZones []Zone
	// Credentials accepted by Keystone; every empty field gets a default, secrets get a random one.
	Credentials Credentials
	// TokenTTL is the life of a token, one hour if zero.
	TokenTTL time.Duration
	// ManilaMaxVersion is the highest Manila microversion, 2.78 if empty.
	ManilaMaxVersion string
	// LogLimit is the number of requests the log keeps, 10000 if zero. Counters count on beyond it.
	LogLimit int
	// Now replaces the clock that token expiry and the log go by.
	Now func() time.Time
}

// Region names are path elements, and gophercloud uses the first "v1" in a path as the API version.
var (
	regionName  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)
	versionLike = regexp.MustCompile(`v[0-9]`)
)

// withDefaults returns the configuration with every empty field set.
func (c Config) withDefaults() Config {
	setDefault(&c.Listen, loopback)
	setDefault(&c.Control, loopback)
	setDefault(&c.TokenTTL, defaultTokenTTL)
	setDefault(&c.ManilaMaxVersion, manilaMaximum)
	setDefault(&c.LogLimit, defaultLogLimit)
	c.Credentials = c.Credentials.withDefaults()
	if len(c.Regions) == 0 {
		c.Regions = []string{DefaultRegion}
	}
	if len(c.ComputeZones) == 0 {
		c.ComputeZones = []Zone{{Name: defaultZone}}
	}
	if len(c.VolumeZones) == 0 {
		c.VolumeZones = []Zone{{Name: defaultZone}}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// validate reports every fault of a configuration whose defaults are set.
func (c Config) validate() error {
	var faults []error
	for _, address := range []string{c.Listen, c.Control} {
		if _, _, err := net.SplitHostPort(address); err != nil {
			faults = append(faults, fmt.Errorf("address %q: %w", address, err))
		}
	}
	for _, region := range c.Regions {
		if !regionName.MatchString(region) || versionLike.MatchString(region) || known(Service(region)) {
			faults = append(faults, fmt.Errorf("region %q cannot be an element of a URL path", region))
		}
	}
	if _, err := parseMicroversion(c.ManilaMaxVersion); err != nil {
		faults = append(faults, err)
	}
	if c.TokenTTL < 0 {
		faults = append(faults, fmt.Errorf("token life %s is negative", c.TokenTTL))
	}
	return errors.Join(faults...)
}

// known returns whether the simulator has the service.
func known(service Service) bool {
	for _, s := range Services() {
		if s == service {
			return true
		}
	}
	return false
}

// setDefault sets an empty value.
func setDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}
