package openstack_test

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	userByID  = "user_id: u"
	fromNS    = "key clouds.yaml of Secret ns/name"
	noProject = fromNS + " has no project in its login: "
)

func TestMissingFieldsNameTheKeyInTheWrongPlace(t *testing.T) {
	t.Parallel()
	const incomplete = "is incomplete: clouds.openstack.auth (line 3) lacks "
	wantRefused(t, map[string]mistake{
		"domains beside auth": {
			auth("username: u", pass, "project_name: p") +
				"    user_domain_name: d\n    project_domain_name: d\n",
			incomplete + "user_domain_name or user_domain_id (user_domain_name (line 8) is not read: " +
				"indent line 8 below auth), project_domain_name or project_domain_id " +
				"(project_domain_name (line 9) is not read: indent line 9 below auth)",
		},
		"everything beside auth": {
			"clouds:\n  openstack:\n    auth:\n    auth_url: https://k\n    user_id: u\n" +
				"    password: s3cr3t\n",
			incomplete + "auth_url (auth_url (line 4) is not read: indent line 4 below auth), " +
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
		"application credential without a secret": {
			auth("application_credential_id: c"),
			incomplete + "application_credential_secret",
		},
		"secret of an application credential alone": {
			auth(credentialSecret),
			incomplete + "application_credential_id",
		},
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
			"has fields that are not supported: clouds.openstack.auth_type (line 6): use password,",
		},
		"an unknown interface": {
			auth(userByID, pass) + "    interface: public\n    endpoint_type: s3cr3t\n",
			"has an unknown clouds.openstack.endpoint_type (line 8): use public, internal or admin",
		},
	})
}

func TestSecureYAMLIsNamedIfTheLoginIsIncomplete(t *testing.T) {
	t.Parallel()
	c := content(auth(userByID))
	c.Data["secure.yaml"] = []byte("s3cr3t")
	const note = ". Key secure.yaml is not read: move its content into clouds.yaml"
	_, err := c.Login()
	assert.Check(t, err != nil && strings.HasSuffix(err.Error(), "lacks password"+note),
		"got error %v", err)
}

func TestLoginWithoutProjectSaysWhatToDo(t *testing.T) {
	t.Parallel()
	const add = noProject + "add project_id, or project_name with project_domain_name, to " +
		"clouds.openstack.auth (line 3)"
	for name, test := range map[string]mistake{
		"project by ID":          {auth(userByID, pass, "project_id: p"), ""},
		"application credential": {auth("application_credential_id: c", credentialSecret), ""},
		"no project":             {auth(userByID, pass, "project_name: ''"), add},
		"a domain": {
			auth(userByID, pass, "domain_id: d"),
			add + ". A domain is no project: domain_id (line 7)",
		},
		"an old spelling": {
			auth(userByID, pass, "tenant_name: p"),
			noProject + "tenant_name (line 7) is not read: write project_name",
		},
		"a dash": {
			auth(userByID, pass, "project-id: p"),
			noProject + "project-id (line 7) is not read: write project_id",
		},
		"beside auth": {
			auth(userByID, pass) + "    project_name: p\n",
			noProject + "project_name (line 7) is not read: indent line 7 below auth",
		},
		"beside auth in an old spelling": {
			auth(userByID, pass) + "    tenant_id: p\n",
			noProject + "tenant_id (line 7) is not read: indent line 7 below auth and write project_id",
		},
		"password and application credential": {
			auth(userByID, pass, "application_credential_id: c", credentialSecret, "project_id: p"),
			noProject + "with a password the drivers use neither the application credential nor a " +
				"project. Remove clouds.openstack.auth.password (line 6) or application_credential_id " +
				"(line 7), application_credential_secret (line 8)",
		},
	} {
		login, err := parsed(test.text)
		assert.NilError(t, err, name)
		assert.Check(t, is.DeepEqual(test.want, login.NoProject), name)
	}
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
			entry("region: A", "insecure: true", "endpoint-type: internal"),
			[]string{
				"region (line 8) has no effect: write region_name",
				"insecure (line 9) has no effect: write verify, with the opposite value",
				"endpoint-type (line 10) has no effect: write endpoint_type",
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
	check(t, err)
	assert.Check(t, is.Len(login.Remarks, 10))
	wantPrintable(t, strings.Join(login.Remarks[5:], ""))
}

func TestSecretWithoutCloudsYAMLNamesItsKeys(t *testing.T) {
	t.Parallel()
	_, err := openstack.Content{
		Name: "Secret ns/name", Data: map[string][]byte{"x": nil, "a b": nil},
	}.Login()
	const want = "Secret ns/name has no key clouds.yaml; its keys are (a name that is not printed), x"
	assert.Check(t, is.Error(err, want))
}
