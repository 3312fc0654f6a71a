package openstack

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// auth_url is the URL of the identity service; the catalog contains the URLs of the other services.
func TestMessageNamesTheSourceOfTheURL(t *testing.T) {
	t.Parallel()
	const url = "https://cloud.example:5000/v3"
	for _, failure := range []error{
		&net.DNSError{Name: "cloud.example"},
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		errNotOpenStack,
	} {
		own := unreachable(identityService, url, failure).Message
		assert.Check(t, strings.Contains(own, "auth_url") && !strings.Contains(own, "catalog"),
			"%v of the identity service: %s", failure, own)
		other := unreachable("shared file system service", url, failure).Message
		assert.Check(t, !strings.Contains(other, "auth_url") && strings.Contains(other,
			"the URL of the shared file system service in OpenStack's catalog"),
			"%v of another service: %s", failure, other)
	}
}

// The common name of a certificate is the host, which was enough for clients of earlier years.
func TestCertificateWithoutAlternativeNamesIsExplained(t *testing.T) {
	t.Parallel()
	const wrong = "its certificate is not valid for this host name"
	const lacking = "its certificate has no Subject Alternative Names, and the common name does not " +
		"count. Replace the cloud's certificate by one with the host of auth_url among its Subject"
	for want, certificates := range map[string][]*x509.Certificate{
		lacking: {{}},
		wrong: {
			nil,
			{DNSNames: []string{"k.example"}},
			{EmailAddresses: []string{"a@k.example"}},
			{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 2)}},
		},
	} {
		for _, c := range certificates {
			got := describe(x509.HostnameError{Certificate: c, Host: "127.0.0.1"})
			assert.Check(t, strings.HasPrefix(got, want), "%+v: %s", c, got)
		}
	}
}

// Whoever writes the Secret of a guest cluster chooses the number of entries.
func TestCloudsWithTooManyEntriesAreNotDecoded(t *testing.T) {
	t.Parallel()
	_, err := readEntry([]byte(manyClouds(maxNodes / 2)))
	assert.ErrorContains(t, err, "too many entries")
}

func BenchmarkReadEntryOfMany(b *testing.B) {
	text := []byte(manyClouds(maxNodes/2-10) + "  openstack: {}\n")
	for b.Loop() {
		if _, err := readEntry(text); err != nil {
			b.Fatal(err)
		}
	}
}

func manyClouds(entries int) string {
	var text strings.Builder
	text.WriteString("clouds:\n")
	for i := range entries {
		fmt.Fprintf(&text, "  %x:\n", i)
	}
	return text.String()
}

func TestPathOfAccessRule(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ endpoint, requested, want string }{
		{"https://k/v2/", "https://k/v2/types?is_public=none", "/v2/types"},
		{"https://k:8786/share/v2/", "https://k:8786/share/v2/types", "/v2/types"},
		{"https://k/v/v3/0f3dbe8a5c5d/", "https://k/v/v3/0f3dbe8a5c5d/types", "/v3/*/types"},
		{"https://k/v3/AUTH_demo/", "https://k/v3/AUTH_demo/snapshots", "/v3/*/snapshots"},
		{"https://k/v3/demo/", "https://k/v3/demo/types", "/v3/*/types"},
		{
			"https://k/v3", "https://k/v3/users/0123/application_credentials/4567",
			"/v3/users/*/application_credentials/*",
		},
		{"https://k/", "https://k/types", "/types"},
		{"https://k/v2/", "https://k/v2/shares/a%2Fb%0A/metadata/x.y", "/v2/shares/*/metadata/*"},
	} {
		assert.Check(t, is.Equal(rulePath(test.endpoint, test.requested), test.want),
			"%s of %s", test.requested, test.endpoint)
	}
}

func TestRedirectStaysOnTheServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		from, to string
		refused  bool
	}{
		{"https://k.example/v3", "https://k.example:443/v3/", false},
		{"https://k.example:443/v3", "https://k.example/v3/", false},
		{"http://k.example/v3", "http://k.example:80/v3/", false},
		{"http://k.example/v3", "http://K.Example/v3/", false},
		{"http://k.example:5000/v3", "https://k.example/v3", false},
		{"https://k.example/v3", "https://k.example:80/v3", true},
		{"https://k.example/v3", "https://k.example:5000/v3", true},
		{"https://k.example/v3", "http://k.example/v3", true},
		{"https://k.example/v3", "https://x.example/v3", true},
		{"https://k.example/v3", "https://k.example.x/v3", true},
	} {
		from, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.from, nil)
		assert.NilError(t, err)
		to, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.to, nil)
		assert.NilError(t, err)
		err = checkRedirect(to, []*http.Request{from})
		assert.Check(t, test.refused == errors.Is(err, errRedirected) && (test.refused || err == nil),
			"from %s to %s: refused=%v, got %v", test.from, test.to, test.refused, err)
	}
}
