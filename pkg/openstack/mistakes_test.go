package openstack_test

import (
	"fmt"
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

// changed returns the valid clouds.yaml with one text replaced.
func changed(tb testing.TB, old, replacement string) string {
	tb.Helper()
	assert.Assert(tb, strings.Contains(cloudsText, old), "the text has no %q", old)
	return strings.Replace(cloudsText, old, replacement, 1)
}

// wantRefused expects errors that name the key, and no secret.
func wantRefused(t *testing.T, mistakes map[string]mistake) {
	t.Helper()
	for name, test := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parsed(test.text)
			assert.ErrorContains(t, err, test.want)
			assert.Check(t, strings.HasPrefix(err.Error(), fromNS+" "), "got %v", err)
			for _, part := range []string{"s3cr3t", "4711"} {
				assert.Check(t, !strings.Contains(err.Error(), part), "error holds a secret: %v", err)
			}
			wantPrintable(t, err.Error())
		})
	}
}

// mistake is a clouds.yaml with a part of the error.
type mistake struct{ text, want string }

func TestCommonMistakesInCloudsYAMLAreExplained(t *testing.T) {
	t.Parallel()
	wantRefused(t, mistakes(t))
	wantRefused(t, mistakesWithSecrets(t))
}

func mistakes(tb testing.TB) map[string]mistake {
	tb.Helper()
	invalid := func(line int) string {
		return fmt.Sprintf("is not valid YAML (line %d). Check the indentation and the quotation marks",
			line)
	}
	many := "clouds:\n"
	for i := range 30 {
		many += fmt.Sprintf("  cloud-%02d: {}\n", i)
	}
	return map[string]mistake{
		"empty":          {"", "is empty"},
		"only a comment": {"# nothing yet\n", "is empty"},
		"null":           {"null\n", "is empty"},
		"clouds misspelt": {
			changed(tb, "clouds:", "cloud:"),
			"has no top-level key clouds; its top-level keys are cloud (line 1)",
		},
		"the entry alone": {
			"openstack:\n  auth: {}\n",
			"has no top-level key clouds; its top-level keys are openstack (line 1)",
		},
		"secret as a key": {
			"s3cr3t/=+ x: y\n",
			"has no top-level key clouds; its top-level keys are (a name that is not printed) (line 1)",
		},
		"clouds is empty": {
			"clouds:\n",
			"has no entries in clouds (line 1): indent the entries below clouds",
		},
		"entry not indented": {
			"# comment\nclouds:\nopenstack:\n  auth: {}\n",
			"has no entries in clouds (line 2): indent the entries below clouds; " +
				"other keys are openstack (line 3)",
		},
		"auth not indented": {
			"clouds:\n  openstack:\n  auth:\n    auth_url: x\n",
			"has no clouds.openstack.auth (line 2): indent auth (line 3) below clouds.openstack",
		},
		"auth misspelt": {
			changed(tb, "    auth:", "    auht:"),
			"has no clouds.openstack.auth (line 2); the keys there are auht (line 3), " +
				"region_name (line 10), interface (line 11)",
		},
		"other entries": {
			"clouds:\n  prod: {}\n  \"te\\nst\": {}\n",
			"has no entry clouds.openstack: rename one of its entries to openstack: prod (line 2), " +
				"(a name that is not printed) (line 3)",
		},
		"many other entries": {
			many,
			"has no entry clouds.openstack: rename one of its entries to openstack: cloud-00 (line 2), " +
				"cloud-01 (line 3), cloud-02 (line 4), cloud-03 (line 5), cloud-04 (line 6), " +
				"cloud-05 (line 7), cloud-06 (line 8), cloud-07 (line 9), cloud-08 (line 10), " +
				"cloud-09 (line 11) and 20 more",
		},
		"one space too many":  {changed(tb, "      password:", "       password:"), invalid(6)},
		"a tab":               {changed(tb, "      password:", "\tpassword:"), invalid(6)},
		"no colon":            {changed(tb, "project_name: project", "project_name project"), invalid(8)},
		"open quotation mark": {changed(tb, `username: "user"`, `username: "user`), invalid(5)},
		"long and broken": {
			"clouds: [\n" + strings.Repeat("# comment\n", 5_000),
			"is not valid YAML. Check the indentation and the quotation marks",
		},
		"too large": {strings.Repeat("#\n", 1<<16) + "#", "is larger than 128 KiB"},
		"a bomb of aliases": {
			"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" +
				"c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
				"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n" +
				"g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nclouds: {openstack: {auth: *g}}\n",
			"has too many entries or aliases",
		},
		"many aliases": {
			"r: &r [a, b, c, d, e, f, g, h, i, j]\nclouds:\n  openstack:\n    regions: [*r" +
				strings.Repeat(",*r", 3000) + "]\n",
			"has too many entries or aliases",
		},
	}
}

// mistakesWithSecrets are some in lines that contain a secret.
func mistakesWithSecrets(tb testing.TB) map[string]mistake {
	tb.Helper()
	const passwordLine = `      password: "` + secret + "\"\n"
	return map[string]mistake{
		"no map":             {"- " + secret, "does not have the format of clouds.yaml (line 1)"},
		"plain text":         {`"` + secret + `"`, "(line 1)"},
		"binary":             {"\x00\xff" + secret, "not valid YAML"},
		"password is a list": {changed(tb, `"`+secret+`"`, `["`+secret+`"]`), "(line 6)"},
		"auth is text":       {"clouds:\n  openstack:\n    auth: \"" + secret + `"`, "(line 3)"},
		"entry is text":      {"clouds:\n  openstack: \"" + secret + `"`, "(line 2)"},
		"verify is text":     {cloudsText + "    verify: \"" + secret + "\"\n", "(line 12)"},
		"two faults": {cloudsText + "    verify: \"" + secret + "\"\n    regions: \"" +
			secret + "\"\n", "(line 12, 13)"},
		"password twice": {changed(tb, passwordLine, passwordLine+passwordLine), "(line 7)"},
		"unknown anchor": {changed(tb, `"`+secret+`"`, "*s3cr3t"), "not valid YAML"},
		"wrong tag": {
			changed(tb, `"`+secret+`"`, `!!int "`+secret+`"`),
			"not have the format of clouds.yaml",
		},
		"two domains": {
			changed(tb, "user_domain_name: Default",
				"user_domain_name: \""+secret+"\"\n      user_domain_id: \""+secret+`"`),
			"has two domains of the user in clouds.openstack.auth: user_domain_name (line 7), " +
				"user_domain_id (line 8). Remove one of them",
		},
		"auth_url is of a file": {
			changed(tb, "https://keystone.example:5000/v3", "file:///"+secret),
			"(line 4)",
		},
		"auth_url is no URL": {
			changed(tb, "https://keystone.example:5000/v3", `"https://%zz`+secret+`"`),
			"invalid clouds.openstack.auth.auth_url",
		},
		"unknown interface": {
			changed(tb, "interface: public", `interface: "`+secret+`"`),
			"unknown clouds.openstack.interface (line 11)",
		},
	}
}
