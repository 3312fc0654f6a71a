package openstack

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestPathOfAccessRule(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ endpoint, requested, want string }{
		{"https://k/v2/", "https://k/v2/types?is_public=none", "/v2/types"},
		{"https://k:8786/share/v2/", "https://k:8786/share/v2/types", "/v2/types"},
		{
			"https://k/volume/v3/0f3dbe8a5c5d4c0aa8e2b8bd5a0b0d2c/",
			"https://k/volume/v3/0f3dbe8a5c5d4c0aa8e2b8bd5a0b0d2c/types", "/v3/*/types",
		},
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
