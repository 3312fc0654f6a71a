package guest

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
)

// The maximum sizes. Each is far above the needs of real clusters.
const (
	maxClusterID = 253 // of infraID in HyperShift; installers create 27 characters
	maxName      = 253 // of an object, or of a key of a ConfigMap
	maxTopology  = 40
	maxCipher    = 64
	maxCiphers   = 64
	maxURL       = 4096
	maxNoProxy   = 64 << 10
)

// A limit in a pattern would multiply its size in memory. The callers limit the length.
var (
	isClusterID = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	cipherSuite = regexp.MustCompile(`^TLS_[A-Z0-9_]+$`)
	topology    = regexp.MustCompile(`^[A-Za-z]*$`)
	objectName  = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$`)
	dataKey     = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

type checks struct {
	object string
	faults []error
}

func (c *checks) fault(field, problem, fix string) {
	c.faults = append(c.faults, &FieldError{c.object, field, problem, fix})
}

// pattern expects a matching value of at most limit bytes.
func (c *checks) pattern(field, value string, limit int, allowed *regexp.Regexp, fix string) {
	if len(value) > limit || !allowed.MatchString(value) {
		c.fault(field, "is "+quote(value), fix)
	}
}

// tlsVersion expects a version that Go knows; empty means the default.
func (c *checks) tlsVersion(field, value string) {
	switch configv1.TLSProtocolVersion(value) {
	case "", configv1.VersionTLS10, configv1.VersionTLS11, configv1.VersionTLS12,
		configv1.VersionTLS13:
	default:
		c.fault(field, "is "+quote(value), "use VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13")
	}
}

// cipherSuites expects IANA names.
func (c *checks) cipherSuites(field string, values []string) {
	if len(values) > maxCiphers {
		c.fault(field, fmt.Sprintf("has %d entries", len(values)),
			fmt.Sprintf("list at most %d cipher suites", maxCiphers))
		return
	}
	for i, value := range values {
		c.pattern(fmt.Sprintf("%s[%d]", field, i), value, maxCipher, cipherSuite,
			"use the IANA name of a cipher suite")
	}
}

// logLevel expects a level of the API.
func (c *checks) logLevel(field string, value opv1.LogLevel) {
	if !slices.Contains([]opv1.LogLevel{"", opv1.Normal, opv1.Debug, opv1.Trace, opv1.TraceAll},
		value) {
		c.fault(field, "is "+quote(string(value)), "use Normal, Debug, Trace or TraceAll")
	}
}

// proxyURL expects the address of a proxy, or nothing. It does not quote the value, which may
// contain a password.
func (c *checks) proxyURL(field, value string) {
	if len(value) > maxURL || strings.ContainsFunc(value, unprintable) ||
		strings.Contains(value, " ") {
		c.fault(field, "is not the address of a proxy",
			"use the URL of a proxy without spaces and control characters, at most 4096 bytes")
		return
	}
	scheme := strings.Contains(value, "://")
	if !scheme && strings.Contains(value, "@") { // logs and events would contain the password
		c.fault(field, "has a user name but no scheme", "add the scheme, such as http://, in front of it")
		return
	}
	_, err := url.Parse(value)
	if err != nil && !scheme { // a host and a port are valid in proxy variables
		_, err = url.Parse("http://" + value)
	}
	if err != nil {
		c.fault(field, "is not the address of a proxy", "use a URL such as http://proxy.example.com:3128")
	}
}

// noProxy expects a list of hosts and networks, or nothing.
func (c *checks) noProxy(field, value string) {
	if len(value) > maxNoProxy || strings.ContainsFunc(value, unprintable) {
		c.fault(field, fmt.Sprintf("of %d bytes is too long or has control characters", len(value)),
			"use a list with commas, of at most 65536 bytes")
	}
}

func unprintable(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }
