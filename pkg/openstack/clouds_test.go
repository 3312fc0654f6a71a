package openstack_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

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

func TestParseCloudsReturnsTheEntry(t *testing.T) {
	t.Parallel()
	type summary struct {
		Name, Secret, Region, Availability string
		ApplicationCredential              bool
	}
	password := summary{Name: "openstack", Secret: secret, Region: "RegionOne", Availability: "public"}
	for name, test := range map[string]struct {
		text string
		want summary
	}{
		"password": {cloudsText, password},
		"application credential": {credentialText, summary{
			Name: "openstack", Secret: secret,
			ApplicationCredential: true,
		}},
		"only entry": {
			strings.Replace(cloudsText, "openstack:", "production:", 1),
			summary{Name: "production", Secret: secret, Region: "RegionOne", Availability: "public"},
		},
		"beside others": {cloudsText + "  other: {}\n", password},
		"unknown keys": {
			cloudsText + "    volume_api_version: 3\n    novelty: {a: [b]}\n",
			password,
		},
		"older interface": {strings.Replace(cloudsText, "interface: public", "endpoint_type: publicURL",
			1), password},
		"both interfaces":   {cloudsText + "    endpoint_type: public\n", password},
		"Windows line ends": {strings.ReplaceAll(cloudsText, "\n", "\r\n"), password},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud, err := openstack.ParseClouds([]byte(test.text), openstack.DefaultCloud)
			check(t, err)
			got := summary{
				Name: cloud.Name, Secret: cloud.AuthInfo.Password + cloud.AuthInfo.ApplicationCredentialSecret,
				Region: cloud.RegionName, Availability: cloud.Availability(),
				ApplicationCredential: cloud.UsesApplicationCredential(),
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("cloud (-want +got):\n%s", diff)
			}
		})
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
		"entry is empty": {"clouds:\n  openstack:\n", "no clouds.openstack.auth"},
		"no auth": {
			"clouds:\n  openstack:\n    region_name: \"" + secret + `"`,
			"no clouds.openstack.auth",
		},
		"auth is empty": {
			"clouds:\n  openstack:\n    auth: {}",
			"clouds.openstack.auth lacks auth_url, username or user_id " +
				"(or application_credential_id), password",
		},
		"no auth_url": {
			broken("auth_url:", "other:"),
			"clouds.openstack.auth lacks auth_url",
		},
		"no user": {
			broken("username:", "other:"),
			"clouds.openstack.auth lacks username",
		},
		"no password": {
			broken("password:", "other:"),
			"clouds.openstack.auth lacks password",
		},
		"password is empty": {
			broken(`"`+secret+`"`, `""`),
			"clouds.openstack.auth lacks password",
		},
		"no domain": {broken("user_domain_name:", "other:"), "DomainID or DomainName"},
		"two domains": {
			broken("user_domain_name: Default",
				"user_domain_name: \""+secret+"\"\n      user_domain_id: \""+secret+`"`),
			"DomainID or DomainName",
		},
		"no domain of project": {broken("project_domain_name:", "other:"), "DomainID or DomainName"},
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
			"unknown clouds.openstack.interface",
		},
		"no secret": {
			strings.Replace(credentialText, "_secret:", "_other:", 1),
			"clouds.openstack.auth lacks application_credential_secret",
		},
		"named without a user": {strings.Replace(credentialText, "credential_id:", "credential_name:",
			1), "contradictory login in clouds.openstack.auth"},
		"the only entry is empty": {"clouds:\n  mine: {auth: {}}", "clouds.mine.auth lacks auth_url"},
	}
}

func TestParseCloudsRejectsInvalidText(t *testing.T) {
	t.Parallel()
	for name, test := range brokenClouds(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openstack.ParseClouds([]byte(test.text), openstack.DefaultCloud)
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

// keyContains returns true if a key of a mapping contains the text.
func keyContains(node *yaml.Node, text string) bool {
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 && strings.Contains(child.Value, text) ||
			keyContains(child, text) {
			return true
		}
	}
	return false
}

// FuzzParseClouds proves that no text causes a panic or an error that contains the password. Errors
// contain the names of entries and keys, so texts with the password there are skipped.
func FuzzParseClouds(f *testing.F) {
	for _, test := range brokenClouds(f) {
		f.Add(test.text)
	}
	f.Add(cloudsText)
	f.Add(credentialText)
	f.Add("clouds: &a {openstack: *a}")
	f.Add("a: &a [x]\nb: &b [*a,*a]\nclouds: {<<: *b}")
	f.Fuzz(func(t *testing.T, text string) {
		cloud, err := openstack.ParseClouds([]byte(text), openstack.DefaultCloud)
		if err == nil {
			if cloud.AuthInfo.AuthURL == "" ||
				cloud.AuthInfo.Password+cloud.AuthInfo.ApplicationCredentialSecret == "" {
				t.Errorf("no error, and no login in:\n%s", text)
			}
			return
		}
		var document yaml.Node
		if yaml.Unmarshal([]byte(text), &document) == nil && keyContains(&document, "s3cr3t") {
			return
		}
		if strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("error holds a secret: %v", err)
		}
	})
}
