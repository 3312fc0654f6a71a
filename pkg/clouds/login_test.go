package clouds_test

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/test/budget"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// auth returns a clouds.yaml with the fields as auth of the entry openstack.
func auth(fields ...string) string {
	return "clouds:\n  openstack:\n    auth:\n      auth_url: https://k:5000\n      " +
		strings.Join(fields, "\n      ") + "\n"
}

// Fields of auth.
const (
	userByID         = "user_id: u"
	pass             = "password: pw"
	credentialSecret = "application_credential_secret: cs"
)

// explicit is a clouds.yaml that is accepted, with the entry that contains the same explicitly.
type explicit struct{ text, want string }

// logins are some of them. The rows of test/logins are others.
func logins() map[string]explicit {
	return map[string]explicit{
		"numbers and switches as texts": {
			auth("username: 0123", "password: true", "user_domain_id: 1e3", "project_id: 1234567890123") +
				"    region_name: 1\n",
			"auth: {username: '0123', password: 'true', user_domain_id: '1e3', " +
				"project_id: '1234567890123'}\n" +
				"region_name: '1'",
		},
		"merge keys and aliases": {
			"x: &x {user_id: u, password: pw}\ny: &y\n  endpoint_type: internalURL\n  auth:\n    <<: *x\n" +
				"    auth_url: https://k:5000/v3/\n    project_id: p\nclouds:\n  openstack:\n    <<: *y\n",
			"auth: {user_id: u, password: pw, project_id: p}\nendpoint_type: 'internal'",
		},
		"a name that needs quotation marks": {
			strings.Replace(auth("user_id: u", `password: "a\n\u2028 '\"\\\x07"`, "project_id: p"),
				"openstack:", "'<<':", 1),
			`auth: {user_id: u, password: "a\n\u2028 '\"\\\x07", project_id: p}`,
		},
	}
}

func TestLoginIsExplicit(t *testing.T) {
	t.Parallel()
	for name, test := range logins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parsed(test.text)
			assert.NilError(t, err)
			var entry clientconfig.Cloud
			assert.NilError(t, yaml.Unmarshal([]byte(test.want), &entry))
			entry.AuthInfo.AuthURL = "https://k:5000/v3"
			want := clouds.Login{
				Entry: "openstack", AuthInfo: *entry.AuthInfo, Region: entry.RegionName,
				Interface: entry.EndpointType,
			}
			if strings.Contains(test.text, "'<<':") {
				want.Entry = "<<"
			}
			assert.Check(t, is.DeepEqual(&want, got), "login")
			wantSameRequest(t, test.text, got)
			wantSurvives(t, got)
		})
	}
}

// request returns the body of the request for a token.
func request(options *gophercloud.AuthOptions) (map[string]any, error) {
	scope, err := options.ToTokenV3ScopeMap()
	if err != nil {
		return nil, err
	}
	return options.ToTokenV3CreateMap(scope)
}

// wantSent expects the login to send the same as the drivers, which have these options.
func wantSent(t *testing.T, drivers *gophercloud.AuthOptions, login *clouds.Login) {
	t.Helper()
	want, err := request(drivers)
	assert.NilError(t, err)
	got, err := request(login.AuthOptions())
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual(want, got), "request of the drivers (-) and of the login (+)")
}

// readByDrivers returns the options that the drivers' reader of clouds.yaml finds in an entry.
func readByDrivers(t *testing.T, text, entry string) *gophercloud.AuthOptions {
	t.Helper()
	var file clientconfig.Clouds
	assert.NilError(t, yaml.Unmarshal([]byte(text), &file))
	info := *file.Clouds[entry].AuthInfo
	info.AuthURL = "https://k:5000/v3"
	options, err := clientconfig.AuthOptions(&clientconfig.ClientOpts{
		EnvPrefix: "UNUSED_", AuthInfo: &info, AuthType: file.Clouds[entry].AuthType,
	})
	assert.NilError(t, err)
	return options
}

// wantSameRequest expects the login to send what the drivers' reader of clouds.yaml sends.
func wantSameRequest(t *testing.T, text string, login *clouds.Login) {
	t.Helper()
	options := readByDrivers(t, text, login.Entry)
	if login.NoProject == "" || options.Scope.DomainID+options.Scope.DomainName == "" {
		wantSent(t, options, login)
	}
}

// wantSurvives expects the login in the generated clouds.yaml, and in the keys of Manila's driver.
func wantSurvives(t *testing.T, login *clouds.Login) {
	t.Helper()
	text := login.CloudsYAML()
	generated := content(string(text))
	generated.CA = login.CA
	got, err := generated.Login()
	assert.NilError(t, err, "generated:\n%s\nerror", text)
	notes := cmpopts.IgnoreFields(clouds.Login{}, "Remarks", "NoProject", "CAPath")
	assert.Check(t, is.DeepEqual(login, got, notes), "login")
	wantSameRequest(t, string(text), login)
	keys := login.ManilaKeys()
	wantManilaLogin(t, keys, login)
	got, err = clouds.LoginOfManilaKeys(keys)
	assert.NilError(t, err)
	got.Entry = login.Entry
	assert.Check(t, is.DeepEqual(login, got, notes), "login (-want +of Manila's keys)")
}

// A login is accepted if and only if the drivers can use it, and means the same for all readers.
func TestEachCombinationOfFieldsMeansWhatItMeansToTheDrivers(t *testing.T) {
	t.Parallel()
	fields := []string{ // of auth, all that a login consists of
		"password: pw", "username: u", "user_id: ui", "user_domain_name: ud", "user_domain_id: udi",
		"project_name: p", "project_id: pi", "project_domain_name: pd", "project_domain_id: pdi",
		"domain_name: d", "domain_id: di", "default_domain: dd", "application_credential_id: ci",
		"application_credential_name: cn", "application_credential_secret: cs",
	}
	accepted := 0
	for set := 1; set < 1<<len(fields); set += 31 {
		var chosen []string
		for i, field := range fields {
			if set&(1<<i) != 0 {
				chosen = append(chosen, field)
			}
		}
		text := auth(chosen...)
		login, err := parsed(text)
		_, refused := request(readByDrivers(t, text, "openstack"))
		assert.Assert(t, (err == nil) == (refused == nil), "%v, the drivers: %v:\n%s", err, refused, text)
		if err == nil {
			accepted++
			wantSameRequest(t, text, login)
			wantSurvives(t, login)
		} else if _, ofProject := errors.AsType[gophercloud.ErrScopeDomainIDOrDomainName](
			refused); ofProject {
			assert.Check(t, is.Contains(err.Error(), "project_domain_name or project_domain_id"))
		} else if _, ofUser := errors.AsType[gophercloud.ErrDomainIDOrDomainName](refused); ofUser {
			assert.Check(t, is.Regexp("user_domain_name or user_domain_id|two domains of the user",
				err.Error()))
		}
	}
	assert.Check(t, accepted != 0, "no combination was accepted")
}

// Drivers before 1.34 require exactly one key os-domain* for a password.
func TestManilaKeysRepeatTheDomainForOldDrivers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ login, id, name string }{
		{"user_domain_id: i, project_name: p, project_domain_id: i", "i", ""},
		{"user_domain_name: n, project_name: p, project_domain_name: n", "", "n"},
		{"user_domain_name: n, project_name: p, project_domain_id: i", "", "n"},
		{"user_domain_id: i, project_id: p", "i", ""},
		{"username: '', user_id: u, project_id: p", "", ""},
		// It would be the scope, or the domain of the project.
		{"user_domain_id: i", "", ""},
		{"user_domain_id: i, project_name: p, project_domain_name: n", "", ""},
	} {
		login := clouds.Login{AuthInfo: clientconfig.AuthInfo{Username: "u", Password: "pw"}}
		assert.NilError(t, yaml.Unmarshal([]byte("{"+test.login+"}"), &login.AuthInfo))
		keys := login.ManilaKeys()
		got := [2]string{keys["os-domainID"], keys["os-domainName"]}
		assert.Check(t, is.DeepEqual([2]string{test.id, test.name}, got), test.login)
	}
}

func TestManilaKeysNeedALogin(t *testing.T) {
	t.Parallel()
	for want, keys := range map[string]map[string]string{
		"has no key os-authURL": {"os-useClouds": "true"},
		"has neither key os-password nor os-applicationCredentialSecret": {"os-authURL": "x"},
	} {
		_, err := clouds.LoginOfManilaKeys(keys)
		assert.Check(t, is.Error(err, want))
	}
}

func TestCAHasThreeSources(t *testing.T) {
	t.Parallel()
	cloud, err := simulator.New(simulator.Config{TLS: true})
	assert.NilError(t, err)
	ca := string(cloud.CA())
	block, _ := pem.Decode(cloud.CA())
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	entry := auth(userByID, pass, "project_id: p") + "    cacert: "
	inline := entry + "|\n      " + strings.ReplaceAll(strings.TrimSpace(ca), "\n", "\n      ") + "\n"
	dos := strings.ReplaceAll(ca, "\n", "\r\n")
	broken := strings.Replace(ca, "\nMII", "\nAAA", 1)
	privateKey := strings.ReplaceAll(ca, " CERTIFICATE", " PRIVATE KEY")
	const (
		path      = "/home/me/ca.pem"
		secretKey = "key cacert of Secret ns/name"
		config    = "key ca-bundle.pem of ConfigMap ns/ca"
		unusable  = " contains no PEM certificate"
	)
	for name, test := range map[string]struct {
		text, secret, config string
		// want is the CA, or the start of the error.
		want string
	}{
		"none":                         {entry + "\n", "", "", ""},
		"blank texts":                  {entry + "' '\n", "\n", " \n\t", ""},
		"Secret before ConfigMap":      {inline, "# s\n" + ca, "# c\n" + ca, "# s\n" + ca},
		"ConfigMap if Secret is blank": {inline, "\n", "# c\n" + ca, "# c\n" + ca},
		"clouds.yaml at last":          {inline, "", "", ca},
		"carriage returns":             {entry, dos, "", dos},
		"a path beside a CA":           {entry + path, "", ca, ca},
		"a path of the system":         {entry + "/etc/ssl/cert.pem", "", "", ""},
		"a comment that is not UTF-8":  {entry, "# \xfc\n" + ca, "", "# ?\n" + ca},
		"a path alone": {
			entry + path, "", "\n", fromNS + " has a path in clouds.openstack.cacert (line 8), and pods " +
				"do not contain that file: put the PEM into key cacert of the Secret",
		},
		"text in the Secret":    {entry, "s3cr3t", ca, secretKey + unusable},
		"text in the ConfigMap": {entry, "", "s3cr3t", config + unusable},
		"one of two is broken": {
			entry, ca + broken, "", secretKey + " cannot be used: block 2 (" + fmt.Sprintf("line %d)",
				1+strings.Count(ca, "\n")) + " contains a certificate that cannot be parsed. Copy it",
		},
		"a part of DER": {entry, "\x30\x82\x01\x34", "", secretKey + " is a key or a request in DER"},
		"DER":           {entry, string(block.Bytes), "", secretKey + " is a certificate in DER"},
		"base64": {entry, encoded(ca), "", secretKey + " is base64 of a certificate in PEM, " +
			"not a bundle of certificates: write the decoded text, or use stringData"},
		"base64 in the ConfigMap": {entry, "", encoded(ca), config + " is base64 of a certificate in " +
			"PEM, not a bundle of certificates: write the decoded text, or use kubectl create configmap"},
		"base64 in clouds.yaml": {
			entry + encoded(ca), "", "",
			fromNS + " in clouds.openstack.cacert (line 8) is base64 of a certificate in PEM",
		},
		"base64 of DER": {
			entry, encoded(string(block.Bytes)), "", secretKey + " is base64 of a certificate in DER,",
		},
		"a trusted certificate": {
			entry, strings.ReplaceAll(ca, " CERTIFICATE", " TRUSTED CERTIFICATE"), "",
			secretKey + " is a TRUSTED CERTIFICATE of OpenSSL (line 1), not a bundle of certificates: " +
				"convert it with openssl x509",
		},
		"PKCS7": {
			entry, strings.ReplaceAll(ca, " CERTIFICATE", " PKCS7"), "",
			secretKey + " is PKCS7 (line 1), not a bundle of certificates: convert it with openssl pkcs7",
		},
		"without line breaks": {
			entry, "# CA\n" + strings.ReplaceAll(ca, "\n", `\n`), "", secretKey + " cannot be used: " +
				`block 1 (line 2) contains \n as two characters: write line breaks`,
		},
		"a private key": {entry, privateKey, "", secretKey + " is a private key (line 1)"},
		"a command": {
			entry, "CONNECTED(00000003)\ndepth=1 CN = a", "", secretKey + " is the output of openssl",
		},
		"a web page": {entry, "<html>s3cr3t", "", secretKey + " is a web page or XML (line 1)"},
		"a manifest": {
			entry, "kind: ConfigMap\ndata: {ca: '" + strings.ReplaceAll(ca, "\n", "\n ") + "'}", "",
			secretKey + " is a manifest of kind ConfigMap (line 1), not a bundle",
		},
		"a path":        {entry, path, "", secretKey + " is the path of a file (line 1)"},
		"a placeholder": {entry, "${CA}", "", secretKey + " is a placeholder (line 1)"},
		"cut off": {
			entry, "# CA\n" + ca[:len(ca)-30], "", secretKey + " cannot be used: block 1 (line 2) has " +
				"no end. Copy it again",
		},
		"cut off in clouds.yaml": {
			entry + "'-----BEGIN CERTIFICATE-----'", "", "",
			fromNS + " in clouds.openstack.cacert (line 8) cannot be used: block 1 (line 1) has no end",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := content(test.text)
			c.Data["cacert"], c.CA = []byte(test.secret), test.config
			login, err := c.Login()
			if err != nil {
				assert.Check(t, test.want != "" && strings.HasPrefix(err.Error(), test.want),
					"got %v, want %q", err, test.want)
				return
			}
			assert.Check(t, is.DeepEqual(test.want, login.CA), "CA")
			wantSurvives(t, login)
		})
	}
}

// wantManilaLogin expects the Manila CSI driver to send the login. Its fields have the names of the
// keys: see AuthOpts in pkg/client of https://github.com/kubernetes/cloud-provider-openstack.
func wantManilaLogin(t *testing.T, keys map[string]string, login *clouds.Login) {
	t.Helper()
	for key, value := range keys {
		assert.Check(t, value != "" && key != "os-useClouds", "the driver refuses %s with %q", key, value)
	}
	opts, err := clientconfig.AuthOptions(&clientconfig.ClientOpts{
		EnvPrefix: "UNUSED_", AuthInfo: &clientconfig.AuthInfo{
			AuthURL: keys["os-authURL"], Password: keys["os-password"],
			UserID: keys["os-userID"], Username: keys["os-userName"],
			UserDomainID: keys["os-userDomainID"], UserDomainName: keys["os-userDomainName"],
			ProjectID: keys["os-projectID"], ProjectName: keys["os-projectName"],
			ProjectDomainID: keys["os-projectDomainID"], ProjectDomainName: keys["os-projectDomainName"],
			DomainID: keys["os-domainID"], DomainName: keys["os-domainName"],
			ApplicationCredentialID:     keys["os-applicationCredentialID"],
			ApplicationCredentialName:   keys["os-applicationCredentialName"],
			ApplicationCredentialSecret: keys["os-applicationCredentialSecret"],
		},
	})
	assert.NilError(t, err)
	wantSent(t, opts, login)
}

// FuzzLogin proves that no text causes a panic or a message that contains the password, that an
// accepted login survives, and that no text costs much. Messages contain the names of entries and
// keys, so texts with the password there are skipped.
func FuzzLogin(f *testing.F) {
	for _, test := range mistakesWithSecrets() {
		f.Add(test.text)
	}
	for _, test := range logins() {
		f.Add(test.text)
	}
	f.Add(cloudsText)
	f.Add(auth("application_credential_id: c", "application_credential_secret: s3cr3t"))
	f.Add("clouds: &a {openstack: *a}")
	f.Add("a: &a [x]\nb: &b [*a,*a]\nclouds: {<<: *b}")
	const size = 128 << 10
	for _, text := range slices.Concat(budget.YAML("clouds:", "", 8<<10),
		budget.YAML("clouds:\n  openstack:\n    auth:", "      ", size),
		budget.YAML("clouds:\n  openstack:\n    regions:\n    - values:", "        ", size)) {
		f.Add(text)
	}
	for _, test := range otherTrees() {
		f.Add(test.text)
	}
	f.Add(budget.Repeated("a: &a |\n"+strings.Repeat("  [x]\n", 9000)+"b:\n", "  x#: *a\n", size))
	f.Add(budget.Repeated("a: [\n", "x: y\n", size))
	f.Add(budget.Repeated("a:\n", "  x#: |\n    [x]\n    a = b\n", size))
	f.Fuzz(func(t *testing.T, text string) {
		var login *clouds.Login
		var err error
		budget.Check(t, func() { login, err = parsed(text) })
		var messages string
		if err != nil {
			messages = err.Error()
		} else {
			messages = login.NoProject + strings.Join(login.Remarks, "\n")
			wantSameRequest(t, text, login)
			wantSurvives(t, login)
		}
		var document yaml.Node
		if yaml.Unmarshal([]byte(text), &document) == nil && keyContains(&document, "s3cr3t") {
			return
		}
		assert.Check(t, !strings.Contains(messages, "s3cr3t"), "message contains a secret: %s", messages)
	})
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

// FuzzCA searches for a bundle of CAs that costs too much.
func FuzzCA(f *testing.F) {
	const size = 512 << 10
	for _, text := range []string{
		budget.Repeated("", "-----BEGIN CERTIFICATE-----\n", size),
		budget.Repeated("", "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n", size),
		budget.Repeated("", "-----BEGIN X-----\na:b\n\nMA==\n-----END X-----\n", size),
		budget.Repeated("-----BEGIN CERTIFICATE-----\n", "a#: b\n", size),
		budget.Repeated("-----BEGIN CERTIFICATE-----\n", "MIIB", size) + "\n-----END CERTIFICATE-----",
		budget.Repeated("", "-", size), budget.Repeated("", "\xff", size),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		budget.Check(t, func() {
			c := content(cloudsText)
			c.CA = text
			_, _ = c.Login()
		})
	})
}
