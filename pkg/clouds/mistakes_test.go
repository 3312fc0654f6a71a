package clouds_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
)

const fromNS = "key clouds.yaml of Secret ns/name"

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

func parsed(text string) (*clouds.Login, error) { return content(text).Login() }

// content returns the Secret "ns/name" with a clouds.yaml.
func content(text string) clouds.Content {
	return clouds.Content{
		Name: "Secret ns/name", CAName: "key ca-bundle.pem of ConfigMap ns/ca",
		Data: map[string][]byte{clouds.Key: []byte(text)},
	}
}

// changed returns the valid clouds.yaml with one text replaced.
func changed(old, replacement string) string {
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
			usual := strings.TrimFunc(err.Error(), unicode.IsPrint) == "" && len(err.Error()) <= 1000
			assert.Check(t, usual, "no condition can contain %q", err)
		})
	}
}

// mistake is a clouds.yaml with a part of the error.
type mistake struct{ text, want string }

func TestCommonMistakesInCloudsYAMLAreExplained(t *testing.T) {
	t.Parallel()
	wantRefused(t, mistakesWithSecrets())
	const advice = ". Check the indentation and the quotation marks"
	const noClouds = "has no top-level key clouds: "
	const expected = "it must begin with clouds, below it the name of an entry such as openstack, " +
		"and below that auth, each indented"
	wantRefused(t, map[string]mistake{
		"empty":             {"", "is empty"},
		"only a comment":    {"# nothing yet\n", "is empty"},
		"null":              {"null\n", "is the word null (line 1), not a"},
		"an empty document": {"---\n---\n" + cloudsText, "remove the line --- above line 3"},
		"an empty entry":    {"clouds:\n  openstack:\n", "(line 2), which is empty: add auth"},
		"many entries":      {"clouds:\n" + strings.Repeat("  x:\n", 10_000), "too many entries"},
		"clouds misspelt": {
			changed("clouds:", "cloud:"), noClouds + "rename cloud (line 1) to clouds",
		},
		"secret as a key": {
			"s3cr3t/=+ x: y\n",
			noClouds + expected + "; its top-level keys are (a name that is not printed) (line 1)",
		},
		"clouds is empty": {"clouds:\n", "has no entries in clouds (line 1): indent the entries"},
		"entry not indented": {
			"# comment\nclouds:\nopenstack:\n  auth: {}\n",
			"has no entries in clouds (line 2): indent the entries below clouds; " +
				"other keys are openstack (line 3)",
		},
		"auth not indented": {
			"clouds:\n  openstack:\n  auth:\n    auth_url: x\n",
			"has clouds.openstack (line 2), which is empty: indent auth (line 3) below clouds.openstack",
		},
		"auth misspelt": {
			changed("    auth:", "    auht:"),
			"has no clouds.openstack.auth (line 2): rename auht (line 3) to auth",
		},
		"other entries": {
			"clouds:\n  prod: {}\n  \"te\\nst\": {}\n",
			"has no entry clouds.openstack: rename one of its entries to openstack: prod (line 2), " +
				"(a name that is not printed) (line 3)",
		},
		"many other entries": {
			"clouds: {a: , b: , c: , d: , e: , f: , g: , h: , i: , j: , k: , l: }",
			"i (line 1), j (line 1) and 2 more",
		},
		"one space too many": {
			changed("      password:", "       password:"),
			"is not valid YAML at password, line 6. Write key: value, indented with spaces",
		},
		"a tab": {
			changed("      password:", "\tpassword:"),
			"is not valid YAML at password, line 6. It is indented with a tab: use spaces",
		},
		"no colon": {
			changed("project_name: project", "project_name project"),
			"is not valid YAML at project_name, line 8. Write a colon and a space between key and value",
		},
		"open quotation mark": {
			changed(`username: "user"`, `username: "user`),
			"is not valid YAML at username, line 5. Close the quotation mark at the end of the value",
		},
		"long and broken": {"clouds: [" + strings.Repeat("\n# comment", 5_000), "YAML" + advice},
		"too large":       {strings.Repeat("#\n", 1<<16) + "#", "is larger than 128 KiB"},
		"a bomb of aliases": {
			"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" +
				"c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
				"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nclouds: {openstack: {auth: *e}}\n",
			"has too many entries or aliases",
		},
		"many aliases": {
			"r: &r [a, b, c, d, e, f, g, h, i, j]\nclouds:\n  openstack:\n    regions: [*r" +
				strings.Repeat(",*r", 3000) + "]\n",
			"has too many entries or aliases",
		},
	})
}

// mistakesWithSecrets are some in lines that contain a secret.
func mistakesWithSecrets() map[string]mistake {
	const url = "https://keystone.example:5000/v3"
	const passwordLine = `      password: "` + secret + "\"\n"
	return map[string]mistake{
		"no map":     {"- " + secret, "is a list (line 1), not a clouds.yaml: it must begin with clouds"},
		"plain text": {`"` + secret + `"`, "(line 1)"},
		"binary":     {"\x00\xff" + secret, "not valid YAML"},
		"password is a list": {
			changed(`"`+secret+`"`, `["`+secret+`"]`),
			"clouds.openstack.auth.password (line 6) must be one text",
		},
		"auth is text":   {"clouds:\n  openstack:\n    auth: \"" + secret + `"`, "(line 3)"},
		"entry is text":  {"clouds:\n  openstack: \"" + secret + `"`, "(line 2)"},
		"verify is text": {cloudsText + "    verify: \"" + secret + "\"\n", "(line 12)"},
		"two faults": {cloudsText + "    verify: \"" + secret + "\"\n    regions: \"" +
			secret + "\"\n", "clouds.openstack.verify (line 12) must be true or false, without quotation " +
			"marks, and is a text in quotation marks; clouds.openstack.regions (line 13) must be a list, " +
			"as in [a, b], and is a text in quotation marks"},
		"password twice": {
			changed(passwordLine, passwordLine+passwordLine),
			"clouds.openstack.auth.password (line 7) repeats line 6: remove one of the two",
		},
		"unknown anchor": {changed(`"`+secret+`"`, "*s3cr3t"), "not valid YAML"},
		"wrong tag":      {changed(`"`+secret, `!!int "`+secret), "not have the format of clouds.yaml"},
		"two domains": {
			changed("user_domain_name: Default",
				"user_domain_name: \""+secret+"\"\n      user_domain_id: \""+secret+`"`),
			"has two domains of the user in clouds.openstack.auth: user_domain_name (line 7), " +
				"user_domain_id (line 8). Remove one of them",
		},
		"auth_url is of a file": {changed(url, "file:///"+secret), "at auth_url, line 4. "},
		"auth_url is no URL": {
			changed(url, `"https://%zz`+secret+`"`), "invalid clouds.openstack.auth.auth_url",
		},
	}
}

func TestMissingFieldsNameTheKeyInTheWrongPlace(t *testing.T) {
	t.Parallel()
	const incomplete = "is incomplete: clouds.openstack.auth (line 3) lacks "
	wantRefused(t, map[string]mistake{
		"no domains": {
			auth("username: u", pass, "project_name: p"),
			incomplete + "user_domain_name or user_domain_id, project_domain_name or project_domain_id" +
				". For a missing domain, the openstack command uses the ID default",
		},
		"everything beside auth": {
			"clouds:\n  openstack:\n    auth:\n    auth_url: https://k\n    user_id: u\n" +
				"    password: s3cr3t\n",
			"is incomplete: clouds.openstack.auth (line 3) is empty and lacks auth_url (auth_url (line 4) " +
				"is not read: indent line 4 below auth), " +
				"username or user_id or application_credential_id (user_id (line 5) is not read: " +
				"indent line 5 below auth), password (",
		},
		"another spelling": {
			auth("user: u", "Password: s3cr3t"),
			incomplete + "username or user_id or application_credential_id (user (line 5) is not read: " +
				"write username), password (Password (line 6) is not read: write password)",
		},
		"auth_type of an application credential": {
			auth("username: u") + "    auth_type: v3applicationcredential\n",
			incomplete + "application_credential_id, application_credential_secret",
		},
		"credential without a secret": {
			auth("application_credential_id: c"), incomplete + "application_credential_secret",
		},
		"keys of other tools and languages, and a slip": {
			auth("userName: u", "OS_USER_DOMAIN_NAME: d", "passwrod: s3cr3t"),
			incomplete + "username or user_id or application_credential_id (userName (line 5) is not " +
				"read: write username), password (passwrod (line 7) is not read: write password)",
		},
		"auth in auth": {
			auth("auth: {password: s3cr3t}"), "; auth (line 5) is not read: write what is below it",
		},
		"secret alone": {auth(credentialSecret), incomplete + "application_credential_id"},
		"domain of an unscoped login": {
			auth("username: u", pass, "domain_name: d"),
			incomplete + "user_domain_name or user_domain_id",
		},
		"two users": {
			auth("username: u", userByID, pass),
			"has username (line 5), user_id (line 6) in clouds.openstack.auth: remove one of them",
		},
		"user by ID in a domain": {
			auth(userByID, pass, "project_name: p", "domain_id: d"),
			"has domain_id (line 8) with a user by ID in clouds.openstack.auth: remove the domain of the",
		},
		"a token": {
			auth(userByID, pass, "token: s3cr3t"),
			"has fields that are not supported: clouds.openstack.auth.token (line 7): tokens expire",
		},
		"a token as auth_type": {
			auth("project_id: p") + "    auth_type: v3token\n",
			"has the value v3token at clouds.openstack.auth_type (line 6), which is not supported: tokens " +
				"expire; create an application credential and use v3applicationcredential",
		},
		"a federated user": {
			auth(userByID, pass, "project_id: p") + "    auth_type: v3oidcpassword\n",
			"has the value v3oidcpassword at clouds.openstack.auth_type (line 8), which is not supported: " +
				"create an application credential and use v3applicationcredential, which works for federated",
		},
		"an unknown auth_type": {
			auth(userByID, pass, "project_id: p") + "    auth_type: basic\n", "use password, v3password or",
		},
		"a reference to itself, and keys in the wrong place": {
			auth("username: u", pass, "project_id: p") + "    cloud: openstack\n    user_domain_name: d\n",
			"has fields that are not supported: clouds.openstack.cloud (line 8): it names the entry " +
				"itself: remove this line. It is incomplete: clouds.openstack.auth (line 3) lacks " +
				"user_domain_name or user_domain_id (user_domain_name (line 9) is not read: indent line 9 " +
				"below auth)",
		},
		"a profile in place of a URL": {
			"clouds:\n  openstack:\n    profile: s3cr3t\n    auth: {username: u, project_id: p}\n",
			"(line 3): write the values of the profile into the entry. It is incomplete: " +
				"clouds.openstack.auth (line 4) lacks auth_url, password, user_domain_name or",
		},
		"every kind of mistake": {
			auth(userByID, "password: [s3cr3t]", "project_id: p") + "    auth_type: password\n" +
				"    verify: s3cr3t\n    profile: s3cr3t\n    interface: s3cr3t\n",
			"does not have the format of clouds.yaml: clouds.openstack.auth.password (line 6) must be one " +
				"text, and is a list; clouds.openstack.verify (line 9) must be true or false, without " +
				"quotation marks, and is a text. It has fields that are not supported: " +
				"clouds.openstack.profile (line 10): write the values of the profile into the entry. It has " +
				"an unknown clouds.openstack.interface (line 11): use public, internal or admin",
		},
		"an unknown interface": {
			auth(userByID, pass) + "    interface: public\n    endpoint_type: s3cr3t\n",
			"has an unknown clouds.openstack.endpoint_type (line 8): use public, internal or admin",
		},
	})
}

func TestLoginWithoutProjectSaysWhatToDo(t *testing.T) {
	t.Parallel()
	const add = "add project_id, or project_name with project_domain_name, to " +
		"clouds.openstack.auth (line 3)"
	with := func(field string) string { return auth(userByID, pass, field) }
	for name, test := range map[string]mistake{
		"project by ID":          {with("project_id: p"), ""},
		"application credential": {auth("application_credential_id: c", credentialSecret), ""},
		"no project":             {with("project_name: ''"), add},
		"a domain": {
			with("domain_id: d"), add + ". A domain is no project: domain_id (line 7)",
		},
		"an old spelling": {
			with("tenant_name: p"), "tenant_name (line 7) is not read: write project_name",
		},
		"a dash": {with("project-id: p"), "project-id (line 7) is not read: write project_id"},
		"beside auth": {
			with("") + "    project_name: p\n",
			"project_name (line 8) is not read: indent line 8 below auth",
		},
		"beside auth in an old spelling": {
			with("") + "    tenant_id: p\n",
			"tenant_id (line 8) is not read: indent line 8 below auth and write project_id",
		},
		"password and application credential": {
			auth(userByID, pass, "application_credential_id: c", credentialSecret, "project_id: p"),
			"with a password the drivers use neither the application credential nor a project. " +
				"Remove clouds.openstack.auth.password (line 6) or application_credential_id " +
				"(line 7), application_credential_secret (line 8)",
		},
	} {
		login, err := parsed(test.text)
		assert.NilError(t, err, name)
		if test.want != "" {
			test.want = fromNS + " has no project in its login: " + test.want
		}
		assert.Check(t, is.Equal(login.NoProject, test.want), name)
	}
}

func TestExchangedIDAndSecretAreNamed(t *testing.T) {
	t.Parallel()
	login, err := parsed(auth("application_credential_id: "+strings.Repeat("aB3_", 20),
		"application_credential_secret: "+strings.Repeat("a1b2", 8)))
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual(login.Remarks, []string{
		fromNS + ": clouds.openstack.auth.application_credential_id (line 5) seems to be the secret, " +
			"and application_credential_secret the ID: exchange them",
	}))
}

func TestRemarksNameKeysWithoutAnEffect(t *testing.T) {
	t.Parallel()
	const catalog = " has no effect: the endpoints of OpenStack's catalog are used"
	entry := func(lines ...string) string {
		return auth(userByID, pass, "project_id: p") + "    " + strings.Join(lines, "\n    ") + "\n"
	}
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"nothing irrelevant": {
			entry("volume_api_version: 3", "compute_api_version: '2.1'", "identity_api_version: 3",
				"networks: [{name: a}]", "regions: [A]", "region_name: A", "insecure:", "verify: true",
				"novelty: {a: b}"), nil,
		},
		"certificates that are not verified": {
			entry("verify: false"),
			[]string{
				"verify (line 8) is false: the certificates of OpenStack are not verified. Write the CA " +
					"of the cloud into key cacert of the Secret and remove verify",
			},
		},
		"other spellings": {
			entry("region: A", "insecure: true", "endpointType: internal"),
			[]string{
				"region (line 8) has no effect: write region_name",
				"insecure (line 9) has no effect: write verify, with the opposite value",
				"endpointType (line 10) has no effect: write endpoint_type",
			},
		},
		"keys of the entry in auth": {
			auth(userByID, pass, "project_id: p", "verify: false", "region: A", "allow_reauth: true",
				"x: y"),
			[]string{
				"auth.verify (line 8) has no effect: write verify beside auth",
				"auth.region (line 9) has no effect: write region_name beside auth",
				"auth.x (line 11) has no effect: auth has no such key",
			},
		},
		"endpoints": {
			entry("volume_endpoint_override: s3cr3t", "compute_interface: s3cr3t"),
			[]string{"volume_endpoint_override (line 8)" + catalog, "compute_interface (line 9)" + catalog},
		},
		"keys that others precede": {
			entry("interface: public", "endpoint_type: internal", "regions: [A]",
				"auth_type: v3applicationcredential"),
			[]string{
				"auth_type (line 11) has no effect: the drivers log in with the password",
				"interface (line 8) has no effect beside endpoint_type",
				"regions (line 10) has no effect: write region_name",
			},
		},
		"a bundle of the system": {
			entry("cacert: /etc/ssl/certs/ca-certificates.crt"),
			[]string{"cacert (line 8) has no effect: the CAs of the system are used"},
		},
		"an encrypted password": {
			auth(userByID, "password: ENC[AES256_GCM,data:s3cr3t]", "project_id: p"),
			[]string{"auth.password (line 6) seems to be a text encrypted by SOPS: write the value itself"},
		},
		"a placeholder for a secret": {
			auth("application_credential_id: a", "application_credential_secret: <secret>"),
			[]string{
				"auth.application_credential_secret (line 6) seems to be a placeholder: write the value " +
					"itself",
			},
		},
		"placeholders": {
			auth("user_id: ${USER}", "password: $OS_PASSWORD", "project_id: '{{ id }}'"),
			[]string{
				"auth.user_id (line 5) seems to be a placeholder: write the value itself",
				"auth.password (line 6) seems to be a placeholder: write the value itself",
				"auth.project_id (line 7) seems to be a placeholder: write the value itself",
			},
		},
		"a quotation mark of a word processor": {
			auth(userByID, "password: \u201cs3cr3t\u201d", "project_id: p"),
			[]string{
				"auth.password (line 6) begins with a quotation mark of a word processor: write \" or ' " +
					"around the value",
			},
		},
		"a name that may be a secret": {
			auth(userByID, pass, "project_id: p", "s3cr3t/+: x"),
			[]string{"auth.(a name that is not printed) (line 8) has no effect: auth has no such key"},
		},
	} {
		login, err := parsed(test.text)
		assert.NilError(t, err, name)
		for i := range test.want {
			test.want[i] = fromNS + ": clouds.openstack." + test.want[i]
		}
		assert.Check(t, is.DeepEqual(test.want, login.Remarks), name)
	}
}

func TestRemarksAreFew(t *testing.T) {
	t.Parallel()
	fields := []string{userByID, pass}
	for i := range 1000 {
		fields = append(fields, fmt.Sprintf("x%d: y", i))
	}
	login, err := parsed(auth(fields...))
	assert.NilError(t, err)
	assert.Check(t, is.Len(login.Remarks, 10))
}

func TestKeysOfTheSecretAreNamedIfTheLoginIsIncomplete(t *testing.T) {
	t.Parallel()
	for want, data := range map[string]map[string][]byte{
		"lacks password. Key secure.yaml is not read: move its content into clouds.yaml": {
			clouds.Key: []byte(auth(userByID)), "secure.yaml": []byte("s3cr3t"),
		},
		"Secret ns/name has no key clouds.yaml; its keys are (a name that is not printed), x. " +
			"Write a clouds.yaml into this key": {"x": nil, "a b": nil},
		"its keys are cloud.conf. With a copy of key cloud.conf, kubectl openstack-csi check --values " +
			"-f cloud.conf prints the clouds.yaml of the same login: write that into this key": {
			"cloud.conf": []byte("[Global]\nauth-url = https://k:5000/v3\n"),
		},
		"Rename cloud.yaml to clouds.yaml": {"cloud.yaml": []byte(cloudsText)},
	} {
		_, err := clouds.Content{Name: "Secret ns/name", Data: data}.Login()
		assert.Check(t, err != nil && strings.HasSuffix(err.Error(), want), "got %v, want %s", err, want)
	}
}

// Each mistake in each key is named with the line and the key, and without a value.
func TestEachMistakeNamesLineAndKey(t *testing.T) {
	t.Parallel()
	const more = "    endpoint_type: public\n    auth_type: password\n" +
		"    cacert: /etc/ssl/cert.pem\n    identity_api_version: \"3\"\n    verify: true\n"
	lines := strings.SplitAfter(cloudsText+more, "\n")
	for i, line := range lines {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		if value == "" {
			continue
		}
		name := strings.TrimSpace(key)
		for kind, mutated := range map[string]string{
			"null": key + ": null", "empty": key + ":", "a list": key + ": [s3cr3t, 4711]",
			"a map": key + ": {s3cr3t: 4711}", "twice": line + line, "a tab": "\t" + line,
			"no colon": key + " s3cr3t", "no end": key + ": 's3cr3t", "a reference": key +
				": {valueFrom: {secretKeyRef: {name: s3cr3t}}}", "an alias": key + ": *s3cr3t",
			"a colon": key + ": s3cr3t: 4711", "a brace": key + ": {s3cr3t",
		} {
			text := strings.Join(lines[:i], "") + strings.TrimRight(mutated, "\n") + "\n" +
				strings.Join(lines[i+1:], "")
			login, err := parsed(text)
			found := fmt.Sprint(err)
			if err == nil {
				found = strings.Join(append(login.Remarks, login.NoProject), "\n")
			}
			at := strings.Contains(found, fmt.Sprintf("line %d", i+1)) ||
				kind == "twice" && strings.Contains(found, fmt.Sprintf("line %d", i+2))
			assert.Check(t, at && strings.Contains(found, name) && !strings.Contains(found, "s3cr3t") &&
				!strings.Contains(found, "4711"), "%s is %s: %q", name, kind, found)
		}
	}
}
