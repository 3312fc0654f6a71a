package openstack

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	for _, failure := range []error{
		&net.DNSError{Name: "cloud.example"},
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		ErrNotOpenStack,
		lost(url.URL{Scheme: "https", Host: "k"}),
	} {
		own := unreachable(identityService, "https://k", failure).Message
		assert.Check(t, strings.Contains(own, "auth_url") && !strings.Contains(own, "catalog"), own)
		other := unreachable("x service", "https://k", failure).Message
		assert.Check(t, !strings.Contains(other, "auth_url") &&
			strings.Contains(other, "the URL of the x service in OpenStack's catalog"), other)
	}
}

func TestURLsInMessagesContainNoSecret(t *testing.T) {
	t.Parallel()
	got := redactedURL("https://user:secret@k.example/a%2Fb/?token=secret&x=/v3#secret")
	assert.Check(t, is.Equal(got, "https://k.example/a%2Fb?..."))
}

func TestPathOfAccessRule(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ endpoint, requested, want string }{
		{"https://k/v2/", "https://k/v2/types?is_public=none", "/v2/types"},
		{"https://k:8786/share/v2/", "https://k:8786/share/v2/types", "/v2/types"},
		{"https://k/v/v3/0f3dbe8a5c5d/", "https://k/v/v3/0f3dbe8a5c5d/types", "/v3/*/types"},
		{"https://k/v3/demo/", "https://k/v3/demo/types", "/v3/*/types"},
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
		{"http://k.example/v3", "http://k.example:80/v3/", false},
		{"http://k.example/v3", "http://K.Example/v3/", false},
		{"http://k.example:5000/v3", "https://k.example/v3", false},
		{"https://k.example/v3", "https://k.example:80/v3", true},
		{"https://k.example/v3", "https://k.example:5000/v3", true},
		{"https://k.example/v3", "http://k.example/v3", true},
		{"https://k.example/v3", "https://x.example/v3", true},
		{"https://k.example/v3", "https://k.example.x/v3", true},
	} {
		from := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.from, nil)
		to := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.to, nil)
		err := checkRedirect(to, []*http.Request{from})
		assert.Check(t, test.refused == errors.Is(err, errRedirected) && (test.refused || err == nil),
			"from %s to %s: refused=%v, got %v", test.from, test.to, test.refused, err)
	}
}
