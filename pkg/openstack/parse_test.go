package openstack_test

import (
	"strings"
	"testing"

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

// brokenClouds returns invalid texts and a part of the error of each.
func brokenClouds(tb testing.TB) map[string]struct{ text, want string } {
	tb.Helper()
	broken := func(old, replacement string) string { return changed(tb, old, replacement) }
	passwordLine := `      password: "` + secret + "\"\n"
	return map[string]struct{ text, want string }{
		"empty":               {"", "is empty"},
		"only a comment":      {"# " + secret, "is empty"},
		"no map":              {"- " + secret, "(line 1)"},
		"plain text":          {`"` + secret + `"`, "(line 1)"},
		"binary":              {"\x00\xff" + secret, "not valid YAML"},
		"tab for indentation": {broken("      username", "\tusername"), "(line 5)"},
		"quote left open":     {broken(secret+`"`, secret), "(line 6)"},
		"bracket left open":   {broken(`"`+secret+`"`, "["+secret), "(line "},
		"password is a list":  {broken(`"`+secret+`"`, `["`+secret+`"]`), "(line 6)"},
		"password is a map":   {broken(`"`+secret+`"`, `{a: "`+secret+`"}`), "(line 6)"},
		"auth is text":        {"clouds:\n  openstack:\n    auth: \"" + secret + `"`, "(line 3)"},
		"clouds is text":      {"clouds: \"" + secret + `"`, "(line 1)"},
		"entry is text":       {"clouds:\n  openstack: \"" + secret + `"`, "(line 2)"},
		"verify is text":      {cloudsText + "    verify: \"" + secret + "\"\n", "(line 12)"},
		"two faults": {cloudsText + "    verify: \"" + secret + "\"\n    regions: \"" +
			secret + "\"\n", "(line 12, 13)"},
		"password twice": {broken(passwordLine, passwordLine+passwordLine), "(line 7)"},
		"unknown anchor": {broken(`"`+secret+`"`, "*s3cr3t"), "not valid YAML"},
		"wrong tag": {
			broken(`"`+secret+`"`, `!!int "`+secret+`"`),
			"not have the format of clouds.yaml",
		},
		"no entry of that name": {
			strings.Replace(cloudsText, "openstack:", "one:", 1) + "  two: {}\n",
			"no entry clouds.openstack",
		},
		"entry is empty": {"clouds:\n  openstack:\n", "no clouds.openstack.auth (line 2)"},
		"no auth": {
			"clouds:\n  openstack:\n    region_name: \"" + secret + `"`,
			"no clouds.openstack.auth (line 2)",
		},
		"auth is empty": {
			"clouds:\n  openstack:\n    auth: {}",
			"clouds.openstack.auth (line 3) lacks auth_url, username or user_id " +
				"or application_credential_id, password",
		},
		"no auth_url": {
			broken("auth_url:", "other:"),
			"clouds.openstack.auth (line 3) lacks auth_url",
		},
		"no user": {
			broken("username:", "other:"),
			"clouds.openstack.auth (line 3) lacks username",
		},
		"no password": {
			broken("password:", "other:"),
			"clouds.openstack.auth (line 3) lacks password",
		},
		"password is empty": {
			broken(`"`+secret+`"`, `""`),
			"clouds.openstack.auth (line 3) lacks password",
		},
		"no domain": {broken("user_domain_name:", "other:"), "lacks user_domain_name or user_domain_id"},
		"two domains": {
			broken("user_domain_name: Default",
				"user_domain_name: \""+secret+"\"\n      user_domain_id: \""+secret+`"`),
			"has two domains of the user in clouds.openstack.auth: user_domain_name (line 7), " +
				"user_domain_id (line 8). Remove one of them",
		},
		"no domain of project": {
			broken("project_domain_name:", "other:"),
			"lacks project_domain_name or project_domain_id",
		},
		"auth_url has no scheme": {broken("https://keystone.example:5000/v3",
			"keystone.example:5000/v3"), "invalid clouds.openstack.auth.auth_url"},
		"auth_url is an address": {
			broken("https://keystone.example:5000/v3", "10.0.0.1:5000/v3"),
			"invalid clouds.openstack.auth.auth_url",
		},
		"auth_url is of a file": {
			broken("https://keystone.example:5000/v3", "file:///"+secret),
			"(line 4)",
		},
		"auth_url has no host": {
			broken("https://keystone.example:5000/v3", "https:///v3"),
			"invalid clouds.openstack.auth.auth_url",
		},
		"auth_url is no URL": {
			broken("https://keystone.example:5000/v3", `"https://%zz`+secret+`"`),
			"invalid clouds.openstack.auth.auth_url",
		},
		"unknown interface": {
			broken("interface: public", `interface: "`+secret+`"`),
			"unknown clouds.openstack.interface (line 11)",
		},
		"no secret": {
			strings.Replace(credentialText, "_secret:", "_other:", 1),
			"clouds.openstack.auth (line 4) lacks application_credential_secret",
		},
		"named without a user": {strings.Replace(credentialText, "credential_id:", "credential_name:",
			1), "lacks username or user_id"},
		"the only entry is empty": {
			"clouds:\n  mine: {auth: {}}",
			"clouds.mine.auth (line 2) lacks auth_url",
		},
	}
}

func TestInvalidTextIsRejected(t *testing.T) {
	t.Parallel()
	for name, test := range brokenClouds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parsed(test.text)
			if err == nil {
				t.Fatalf("no error for:\n%s", test.text)
			}
			wantFragment(t, err.Error(), test.want)
			wantNoSecret(t, err)
		})
	}
}

func wantNoSecret(t *testing.T, err error) {
	t.Helper()
	for _, part := range []string{"s3cr3t", "4711"} {
		if strings.Contains(err.Error(), part) {
			t.Fatalf("error holds a secret: %v", err)
		}
	}
}
