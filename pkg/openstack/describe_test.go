package openstack

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
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
