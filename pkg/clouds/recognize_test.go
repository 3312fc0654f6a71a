package clouds_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// indented returns the clouds.yaml, indented for a block.
func indented(by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(cloudsText), "\n", "\n"+by) + "\n"
}

func TestOtherFilesAreCalledWhatTheyAre(t *testing.T) {
	t.Parallel()
	const openrc = "is an openrc file (line "
	const ini = "is a file with settings as name = value, such as a cloud.conf (line "
	const template = "is a template that is not filled in (line "
	wantRefused(t, map[string]mistake{
		"openrc": {
			"#!/usr/bin/env bash\n# x: y\nunset OS_TENANT_ID\nexport OS_AUTH_URL=https://k:5000/v3\n" +
				"export OS_PASSWORD=\"s3cr3t\"\nif [ -z \"$X\" ]; then unset X; fi\n", openrc + "4)",
		},
		"openrc without export":  {"OS_AUTH_URL=https://k\nOS_PASSWORD=s3cr3t: x\n", openrc + "1)"},
		"openrc of PowerShell":   {"$env:OS_PASSWORD = \"s3cr3t\"\n", openrc + "1)"},
		"openrc of a batch file": {"set OS_PASSWORD=s3cr3t\n", openrc + "1)"},
		"variables in YAML": {
			"OS_AUTH_URL: https://k\nOS_PASSWORD: s3cr3t\n", "is an openrc file (OS_AUTH_URL (line 1))",
		},
		"cloud.conf":           {"[Global]\nauth-url = https://k\npassword = \"s3cr3t\"\n", ini},
		"cloud.conf, indented": {"; x\n\n[Global \"a\"]\n  password=s3cr3t\n[BlockStorage]\n", ini},
		"settings alone": {
			"auth_url = \"https://k\"\npassword = \"s3cr3t\"\n", "is a file with settings as name = value",
		},
		"a vault": {
			"$ANSIBLE_VAULT;1.1;AES256\n6162\n",
			"is encrypted by Ansible Vault (line 1), not a clouds.yaml: decrypt it first, with",
		},
		"sops": {
			cloudsText + "sops:\n  mac: ENC[x]\n", "is encrypted by SOPS (line 1), not a clouds.yaml",
		},
		"sops without its end": {
			auth("username: u", "password: s3cr3t"), "lacks user_domain_name",
		},
		"PGP":           {"-----BEGIN PGP MESSAGE-----\n\ns3cr3t\n", "is encrypted by PGP"},
		"age":           {"-----BEGIN AGE ENCRYPTED FILE-----\ns3cr3t\n", "is encrypted by age"},
		"a private key": {"-----BEGIN PRIVATE KEY-----\ns3cr3t\n", "is a private key (line 1)"},
		"a certificate": {
			"-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n",
			"is a certificate in PEM (line 1), not a clouds.yaml: write it into key cacert",
		},
		"a web page": {"<!DOCTYPE html>\n<html>s3cr3t</html>\n", "is a web page or XML"},
		"base64": {
			base64.StdEncoding.EncodeToString([]byte(cloudsText)), "is base64 of a clouds.yaml, not a " +
				"clouds.yaml: write the decoded text, or use stringData, or kubectl create --from-file",
		},
		"base64 without its padding, in quotation marks": {
			`"` + strings.Trim(base64.URLEncoding.EncodeToString([]byte(cloudsText+"#")), "=") + `"`,
			"is base64 of a clouds.yaml",
		},
		"base64 in lines": {
			strings.Join(strings.SplitAfterN(base64.StdEncoding.EncodeToString([]byte(cloudsText)), "n", 9),
				"\n"),
			"is base64 of a clouds.yaml",
		},
		"a template of a value":     {changed(`"user"`, "{{ user }}"), template + "5)"},
		"a template within a value": {changed(`"user"`, "{{ user }}x"), template + "5)"},
		"a template with logic": {
			"{% if s3cr3t %}\n" + cloudsText, template + "1)",
		},
		"a template of Helm": {
			"clouds:\n  {{- range .Values.s3cr3t }}\n  openstack: {}\n  {{- end }}\n", template + "2)",
		},
		"a template as auth_url": {
			changed("https://keystone.example:5000/v3", `"{{ s3cr3t }}/v3"`),
			"has a placeholder at clouds.openstack.auth.auth_url (line 4)",
		},
		"a variable as auth_url": {
			changed("https://keystone.example:5000/v3", "${OS_AUTH_URL}"),
			"has a placeholder at clouds.openstack.auth.auth_url (line 4)",
		},
		"a table": {"| Field | Value |\n| secret | s3cr3t |\n", "is a table that the command"},
		"an auth_url in a vault": {
			changed("https://keystone.example:5000/v3", "!vault |\n        $ANSIBLE_VAULT;1.1\n        61"),
			"has a text encrypted by Ansible Vault at clouds.openstack.auth.auth_url (line 4): write",
		},
		"a value with a colon": {
			changed(`"`+secret+`"`, "s3cr3t: x"),
			"at password, line 6. A value with a colon and a space, or a colon at its end, needs",
		},
		"a quotation mark in quotation marks": {
			changed(`"`+secret+`"`, "'s3cr3t's'"), "at password, line 6. Close the quotation mark",
		},
		"an encrypted auth_url": {
			changed("https://keystone.example:5000/v3", "ENC[AES256_GCM,data:s3cr3t]"),
			"has a text encrypted by SOPS at clouds.openstack.auth.auth_url (line 4)",
		},
	})
	wantRefused(t, otherTrees())
	wantRefused(t, copiedTexts())
}

// copiedTexts are what comes from web pages, word processors and other tools.
func copiedTexts() map[string]mistake {
	return map[string]mistake{
		"Markdown": {
			"```yaml\n" + cloudsText + "```\n", "is a clouds.yaml with Markdown around it (line 1): write " +
				"only lines 2 to 12",
		},
		"a space of a web page": {
			changed("      username", "\u00a0\u00a0    username"),
			"indented with spaces as the other keys of its level. Line 5 contains U+00A0 (a space other " +
				"than U+0020) in column 1: replace it, or remove it",
		},
		"a key with an invisible character": {
			changed("username", "\u200busername"),
			"lacks username or user_id (<U+200B>username (line 5) is not read: write username). Line 5 " +
				"contains U+200B (an invisible character) in column 7",
		},
		"a comment in place of a value": {
			changed(`"`+secret+`"`, "#s3cr3t"),
			"lacks password (password (line 6) is empty: a value that begins with #, ! or & needs",
		},
		"a key of another tool": {
			changed("password:", "os_password:"),
			"lacks password (os_password (line 6) is not read: write password)",
		},
		"an empty value": {changed(`"`+secret+`"`, `""`), "lacks password (password (line 6) is empty)"},
		"a value with a bracket": {
			changed(`"`+secret+`"`, "[s3cr3t}"), "at password, line 6. Close the bracket, or write the",
		},
		"a backslash in quotation marks": {
			changed(`"`+secret+`"`, `"s3cr3t\q"`), "Within double quotation marks write two backslashes",
		},
	}
}

func TestMistakesInURLsAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"keystone.s3cr3t:5000/v3":       "it does not begin with http:// or https://",
		"ftp://s3cr3t/v3":               "it does not begin with http:// or https://",
		"\u201chttps://s3cr3t/v3\u201d": "it contains U+201C (a quotation mark",
		"https://s3cr3t :5000/v3":       "it contains U+0020 (a space)",
		"https://fd00::5:5000/v3":       "an address of IPv6 needs brackets, as in http://[fd00::5]:5000",
		"https://s3cr3t:70000/v3":       "its host or its port does not exist",
		"https://[fd00::5:5000/v3":      "its host or its port does not exist",
		"https:///v3":                   "use an http or https URL",
	} {
		_, err := parsed(changed("https://keystone.example:5000/v3", `"`+text+`"`))
		assert.ErrorContains(t, err, "has an invalid clouds.openstack.auth.auth_url (line 4): "+want)
		assert.Check(t, !strings.Contains(err.Error(), "s3cr3t"), "error holds the URL: %v", err)
	}
}

// otherTrees are YAML without a top-level key clouds.
func otherTrees() map[string]mistake {
	return map[string]mistake{
		"values of a chart": {
			"csi:\n  enabled: true\n  secret:\n" + indented("    "),
			"has clouds at csi.secret.clouds (line 4), as the values of a Helm chart do",
		},
		"a clouds.yaml as a value": {
			"secret:\n  data: |\n" + indented("    "),
			"contains a clouds.yaml as the text of secret.data (line 2): write only this text",
		},
		"a cloud.conf as a value": {
			"secret:\n  data:\n    cloud.conf: |-\n      [Global]\n      password=s3cr3t\n",
			"is no clouds.yaml: secret.data.cloud.conf (line 3) is a file with settings",
		},
		"base64 as a value": {
			"data:\n  clouds.yaml: " + base64.StdEncoding.EncodeToString([]byte(cloudsText)) + "\n",
			"contains a clouds.yaml in base64 as data.clouds.yaml (line 2): write only the text that",
		},
		"a Secret": {
			"apiVersion: v1\nkind: Secret\nstringData: {x: s3cr3t}\n", "is a manifest of kind Secret",
		},
		"clouds-public.yaml": {"public-clouds: {a: {auth: {}}}\n", "is a clouds-public.yaml"},
		"an entry alone": {
			cloudsText[len("clouds:\n"):],
			"has no top-level key clouds: write clouds: above openstack (line 1), and indent",
		},
		"auth alone":      {"auth:\n  auth_url: https://k\n", "has auth (line 1) at the top: it"},
		"the login alone": {"auth_url: https://k\n", "has auth_url (line 1) at the top: it must begin"},
		"an application credential": {
			`{"id": "a", "name": "csi", "secret": "s3cr3t", "project_id": "p"}`,
			"is the description of an application credential (line 1), not a clouds.yaml: write id",
		},
		"an application credential without a project": {
			"id: a\nsecret: s3cr3t\n", "is the description of an application credential (line 1), not a " +
				"clouds.yaml: write id as application_credential_id",
		},
		"the login without an entry": {
			"clouds:\n  auth:\n    auth_url: https://k\n", "has auth (line 2) directly below clouds: it",
		},
		"clouds misspelt": {"cluods:\n  openstack: {}\n", "rename cluods (line 1) to clouds"},
		"a template as auth": {
			"clouds:\n  openstack:\n    auth: '{{ s3cr3t }}'\n", "is a template that is not filled",
		},
		"the login without auth": {
			"clouds:\n  openstack:\n    auth_url: https://k\n    password: s3cr3t\n",
			"has no clouds.openstack.auth (line 2): add auth above auth_url (line 3)",
		},
		"a name that no driver reads": {
			"clouds:\n  \"a\\rb\":\n    auth: {}\n",
			"has an entry (line 2) whose name contains NUL, a carriage return or bytes that are not UTF-8",
		},
		"a name with NUL": {"clouds: {\"a\\0b\": {auth: {}}}\n", "has an entry (line 1) whose name"},
		"a name in other bytes": {
			"clouds:\n  !!binary /w==:\n    auth: {}\n", "has an entry (line 2) whose name contains NUL",
		},
	}
}

// What programs and people write around a clouds.yaml is named, and the lines to keep.
func TestTextAroundCloudsYAMLIsNamed(t *testing.T) {
	t.Parallel()
	quoted := strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(cloudsText)
	number := 0
	start := regexp.MustCompile(`(?m)^.`)
	numbered := start.ReplaceAllStringFunc(cloudsText, func(first string) string {
		number++
		return fmt.Sprintf("%6d\t%s", number, first)
	})
	marked := func(by string) string { return start.ReplaceAllString(cloudsText, by+"$0") }
	const one = "is a clouds.yaml as one text in quotation marks or with \\n in place of"
	const ours = "is a clouds.yaml "
	tests := map[string]mistake{
		"JSON": {`"` + quoted + `"`, one}, "a value of Terraform": {`x = "` + quoted + `"`, one},
		"no quotation marks": {strings.ReplaceAll(cloudsText, "\n", `\n`), one},
		"HTML":               {strings.ReplaceAll(cloudsText, `"`, "&quot;"), ours + "escaped for HTML"},
		"colours":            {"\x1b[32m" + cloudsText, ours + "with the colours of a"},
		"a conflict": {
			strings.Replace(cloudsText, "    auth", "<<<<<<< a\n    auth", 1),
			"is a conflict of git (line 3)",
		},
		"joined": {
			cloudsText + cloudsText, "clouds (line 12) repeats line 1, as if two files were joined: " +
				"remove one of the two, with what is below it",
		},
		"numbers": {numbered, "with a number at the start of each line (line 1): remove"},
		"+":       {marked("+"), "is a clouds.yaml with + at the start of each line (line 1)"},
		">":       {marked("> "), "is a clouds.yaml with > at the start of each line (line 1)"},
		"a List": {
			"items:\n- data:\n    x: |\n" + indented("      "),
			"a clouds.yaml as the text of items.data.x (line 3)",
		},
	}
	for around, what := range map[string]string{
		"<<EOT\n%sEOT\n":         "<< as in the output of",
		"x = <<-EOT\n%s\nEOT\n":  "<< as in the output",
		"cat > x <<EOF\n%sEOF\n": "a command of a shell", "$ cat x\n%s": "a command of a shell",
		"[a@b ~]$ cat x\n%s[a@b ~]$ \n": "a command of a shell", "~~~yaml\n%s~~~\n": "Markdown",
		"|\n%s": "other text", "# x\n%sEOF\n": "other text",
	} {
		first := strings.Count(around[:strings.Index(around, "%s")], "\n") + 1
		tests[around] = mistake{
			fmt.Sprintf(around, cloudsText), fmt.Sprintf(": write only lines %d to %d", first, first+10),
		}
		_, err := parsed(tests[around].text)
		assert.ErrorContains(t, err, "is a clouds.yaml with "+what)
	}
	wantRefused(t, tests)
}

// A character that looks like another one is named with line and column wherever it prevents that a
// key or its place is read.
func TestStrangeCharactersAreNamed(t *testing.T) {
	t.Parallel()
	for char, kind := range map[string]string{
		"\u00a0": "a space other than U+0020", "\u3000": "a space other than U+0020",
		"\u200b": "an invisible character", "\ufeff": "an invisible character",
		"\u2028": "a separator of lines", "\u201c": "a quotation mark of a word processor",
		"\uff1a": "the full-width form of :", "\u2013": "a dash other than -",
		"\u0430": "a letter of the script Cyrillic",
	} {
		code := fmt.Sprintf("%U (%s)", []rune(char)[0], kind)
		for column, replacement := range map[int]string{
			7: char + "username", 11: "user" + char + "name",
		} {
			_, err := parsed(changed("username", replacement))
			assert.ErrorContains(t, err, fmt.Sprintf("Line 5 contains %s in column %d", code, column))
		}
	}
	login, err := parsed(changed("RegionOne", "Région\u200bOne\u2013\u0430"))
	assert.NilError(t, err, "what works is not refused")
	assert.Check(t, is.Len(login.Remarks, 0))
}
