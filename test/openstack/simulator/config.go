package simulator

import (
	"cmp"
	"net/http"
	"time"
)

// Service is one of the simulated OpenStack services; it is also the first element of its URL path.
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

// DefaultRegion is the region of a cloud without Config.Regions.
const DefaultRegion = "RegionOne"

// Config describes a cloud. The zero value is a good one: plain HTTP, region RegionOne, one
// availability zone "nova", no share type, no data, and random secrets.
type Config struct {
	// Host is the IPv4 address to listen on, 127.0.0.1 if empty. It is also the host in export
	// locations, which are HOST:/shares/ID.
	Host string
	// SeparatePorts gives each service a listener of its own, so that faults about connections affect
	// that service alone.
	SeparatePorts bool
	// AdvertisedHost replaces the loopback address in every URL that the cloud returns, for clients
	// that come through a proxy.
	AdvertisedHost string
	// TLS serves HTTPS with a certificate of a private CA; see Simulator.CA.
	TLS bool
	// Regions of the catalog; the first is the default one. The paths of services of further regions
	// start with the name of the region.
	Regions []string
	// ShareTypes that exist from the start; the first is the default one.
	ShareTypes []ShareType
	// State is the folder for the data of volumes and shares. What an earlier cloud left there is
	// removed. Without it, volumes and shares have no data.
	State string
	// OperationTime is how long each operation takes that a service performs after its answer, such as
	// the creation of a volume.
	OperationTime time.Duration
	// Settle is how long an answer waits at most until all such operations are complete; 0 does not
	// wait. The answer is the one before they began, such as a volume that is "creating". It is for
	// clients that do not retry, such as csi-sanity.
	Settle time.Duration
	// Report is called with errors of such operations, from several goroutines. The status of the
	// volume or the share shows them too.
	Report func(error)
	// ComputeZones and VolumeZones are the zones of Nova and Cinder; one called nova if empty.
	ComputeZones, VolumeZones []Zone
	// ShareZones are those of Manila, by default of Nova.
	ShareZones []Zone
	// VolumeQuotas and ShareQuotas are the limits of Cinder and Manila. Nothing else is limited.
	VolumeQuotas, ShareQuotas []Quota
	// Credentials that Keystone accepts. Empty fields get a default, secrets a random one.
	Credentials Credentials
	// TokenTTL is the lifetime of a token, one hour if zero.
	TokenTTL time.Duration
	// Upstream answers the requests in place of the simulated services, if set. Listeners, TLS, faults
	// and log stay. URL paths are those of the simulator, such as /share/v2/types.
	Upstream http.Handler
}

func (c Config) withDefaults() Config {
	c.Host = cmp.Or(c.Host, "127.0.0.1")
	if c.Report == nil {
		c.Report = func(error) {}
	}
	c.TokenTTL = cmp.Or(c.TokenTTL, time.Hour)
	c.Credentials = c.Credentials.withDefaults()
	if len(c.Regions) == 0 {
		c.Regions = []string{DefaultRegion}
	}
	if len(c.ComputeZones) == 0 {
		c.ComputeZones = []Zone{{Name: "nova"}}
	}
	if len(c.VolumeZones) == 0 {
		c.VolumeZones = []Zone{{Name: "nova"}}
	}
	return c
}
