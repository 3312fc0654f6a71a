package openstack_test

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// changed returns the valid clouds.yaml with one text replaced.
func changed(tb testing.TB, old, replacement string) string {
	tb.Helper()
	assert.Assert(tb, strings.Contains(cloudsText, old), "the text has no %q", old)
	return strings.Replace(cloudsText, old, replacement, 1)
}

// wantRefused expects an error that starts with want after the name of the key.
func wantRefused(t *testing.T, text, want string) {
	t.Helper()
	_, err := parsed(text)
	if err == nil || !strings.HasPrefix(err.Error(), "key clouds.yaml of Secret ns/name "+want) {
		t.Fatalf("got %v, want %q", err, want)
	}
	wantNoSecret(t, err)
	wantPrintable(t, err.Error())
}

// mistake is a clouds.yaml with the start of the error.
type mistake struct{ text, want string }

func TestCommonMistakesInCloudsYAMLAreExplained(t *testing.T) {
	t.Parallel()
	for name, test := range commonMistakes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, test.text, test.want)
		})
	}
}

func commonMistakes(tb testing.TB) map[string]mistake {
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
		"only spaces":    {" \n\n", "is empty"},
		"only a comment": {"# nothing yet\n", "is empty"},
		"null":           {"null\n", "is empty"},
		"clouds misspelt": {
			changed(tb, "clouds:", "cloud:"),
			"has no top-level key clouds; its top-level keys are cloud (line 1)",
		},
		"clouds in capital": {
			changed(tb, "clouds:", "Clouds:"),
			"has no top-level key clouds; its top-level keys are Clouds (line 1)",
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
		"auth at the top": {
			"clouds:\n  openstack:\nauth: {}\n",
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
		"one space too many": {changed(tb, "      password:", "       password:"), invalid(6)},
		"one space too few": {
			changed(tb, "      user_domain_name:", "     user_domain_name:"),
			invalid(7),
		},
		"a tab": {changed(tb, "      password:", "\tpassword:"), invalid(6)},
		"no colon": {
			changed(tb, "project_name: project", "project_name project"),
			invalid(8),
		},
		"quotation mark left open":   {changed(tb, `username: "user"`, `username: "user`), invalid(5)},
		"list in place of a mapping": {"- clouds\n", "does not have the format of clouds.yaml (line 1)"},
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
		"an alias of itself": {"a: &a [*a]\nclouds: {}\n", "has too many entries or aliases"},
		"many aliases": {
			"r: &r [a, b, c, d, e, f, g, h, i, j]\nclouds:\n  openstack:\n    regions: [*r" +
				strings.Repeat(",*r", 3000) + "]\n",
			"has too many entries or aliases",
		},
	}
}
