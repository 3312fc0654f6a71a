package openstack_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// secret is part of every value that an error must not repeat. It looks like a part of a YAML
// error, because the code extracts line numbers from such errors.
const secret = "s3cr3t line 4711: "

// cloudsText is a valid clouds.yaml.
const cloudsText = `clouds:
  openstack:
    auth:
      auth_url: https://keystone.example:5000/v3
      username: "user"
      password: "` + secret + `"
      user_domain_name: Default
      project_name: project
      project_domain_name: Default
    region_name: RegionOne
    interface: public
`

// credentialText is a valid clouds.yaml with an application credential.
const credentialText = `clouds:
  openstack:
    auth_type: v3applicationcredential
    auth:
      auth_url: https://keystone.example:5000/v3
      application_credential_id: id
      application_credential_secret: "` + secret + `"
`

// parsed returns the login of a clouds.yaml.
func parsed(text string) (*openstack.Login, error) { return content(text).Login() }

// content returns the Secret "ns/name" with a clouds.yaml.
func content(text string) openstack.Content {
	return openstack.Content{
		Name: "Secret ns/name", CAName: "key ca-bundle.pem of ConfigMap ns/ca",
		Data: map[string][]byte{openstack.CloudsKey: []byte(text)},
	}
}

// brokenClouds returns invalid texts with a secret, and a part of the error of each.
func brokenClouds(tb testing.TB) map[string]struct{ text, want string } {
	tb.Helper()
	broken := func(old, replacement string) string { return changed(tb, old, replacement) }
	passwordLine := `      password: "` + secret + "\"\n"
	return map[string]struct{ text, want string }{
		"no map":             {"- " + secret, "(line 1)"},
		"plain text":         {`"` + secret + `"`, "(line 1)"},
		"binary":             {"\x00\xff" + secret, "not valid YAML"},
		"quote left open":    {broken(secret+`"`, secret), "(line 6)"},
		"password is a list": {broken(`"`+secret+`"`, `["`+secret+`"]`), "(line 6)"},
		"auth is text":       {"clouds:\n  openstack:\n    auth: \"" + secret + `"`, "(line 3)"},
		"clouds is text":     {"clouds: \"" + secret + `"`, "(line 1)"},
		"entry is text":      {"clouds:\n  openstack: \"" + secret + `"`, "(line 2)"},
		"verify is text":     {cloudsText + "    verify: \"" + secret + "\"\n", "(line 12)"},
		"two faults": {cloudsText + "    verify: \"" + secret + "\"\n    regions: \"" +
			secret + "\"\n", "(line 12, 13)"},
		"password twice": {broken(passwordLine, passwordLine+passwordLine), "(line 7)"},
		"unknown anchor": {broken(`"`+secret+`"`, "*s3cr3t"), "not valid YAML"},
		"wrong tag": {
			broken(`"`+secret+`"`, `!!int "`+secret+`"`),
			"not have the format of clouds.yaml",
		},
		"two domains": {
			broken("user_domain_name: Default",
				"user_domain_name: \""+secret+"\"\n      user_domain_id: \""+secret+`"`),
			"has two domains of the user in clouds.openstack.auth: user_domain_name (line 7), " +
				"user_domain_id (line 8). Remove one of them",
		},
		"auth_url is of a file": {
			broken("https://keystone.example:5000/v3", "file:///"+secret),
			"(line 4)",
		},
		"auth_url is no URL": {
			broken("https://keystone.example:5000/v3", `"https://%zz`+secret+`"`),
			"invalid clouds.openstack.auth.auth_url",
		},
		"unknown interface": {
			broken("interface: public", `interface: "`+secret+`"`),
			"unknown clouds.openstack.interface (line 11)",
		},
	}
}

func TestInvalidTextIsRejected(t *testing.T) {
	t.Parallel()
	for name, test := range brokenClouds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parsed(test.text)
			assert.Assert(t, err != nil, "no error for:\n%s", test.text)
			wantFragment(t, err.Error(), test.want)
			wantNoSecret(t, err)
		})
	}
}

func wantNoSecret(t *testing.T, err error) {
	t.Helper()
	for _, part := range []string{"s3cr3t", "4711"} {
		assert.Assert(t, !strings.Contains(err.Error(), part), "error holds a secret: %v", err)
	}
}
