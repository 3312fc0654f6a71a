package openstack_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// auth returns a clouds.yaml with the fields as auth of the entry openstack.
func auth(fields ...string) string {
	return "clouds:\n  openstack:\n    auth:\n      auth_url: https://k:5000\n      " +
		strings.Join(fields, "\n      ") + "\n"
}

// Fields of auth.
const (
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
			check(t, err)
			var entry clientconfig.Cloud
			check(t, yaml.Unmarshal([]byte(test.want), &entry))
			entry.AuthInfo.AuthURL = "https://k:5000/v3"
			want := openstack.Login{
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
func request(t *testing.T, opts interface {
	ToTokenV3ScopeMap() (map[string]any, error)
	ToTokenV3CreateMap(map[string]any) (map[string]any, error)
},
) map[string]any {
	t.Helper()
	scope, err := opts.ToTokenV3ScopeMap()
	check(t, err)
	body, err := opts.ToTokenV3CreateMap(scope)
	check(t, err)
	return body
}

// wantSameRequest expects the login to send what the drivers' reader of clouds.yaml sends.
func wantSameRequest(t *testing.T, text string, login *openstack.Login) {
	t.Helper()
	var file clientconfig.Clouds
	check(t, yaml.Unmarshal([]byte(text), &file))
	info := *file.Clouds[login.Entry].AuthInfo
	info.AuthURL = login.AuthURL
	opts, err := clientconfig.AuthOptions(&clientconfig.ClientOpts{
		EnvPrefix: "UNUSED_", AuthInfo: &info, AuthType: file.Clouds[login.Entry].AuthType,
	})
	check(t, err)
	if login.NoProject == "" || opts.Scope.DomainID+opts.Scope.DomainName == "" {
		assert.Check(t, is.DeepEqual(request(t, opts), request(t, login.AuthOptions())),
			"request of the drivers' reader (-) and of the login (+)")
	}
}

// wantSurvives expects the login in the generated clouds.yaml, and in the keys of Manila's driver.
func wantSurvives(t *testing.T, login *openstack.Login) {
	t.Helper()
	text := login.CloudsYAML()
	generated := content(string(text))
	generated.CA = login.CA
	got, err := generated.Login()
	assert.NilError(t, err, "generated:\n%s\nerror", text)
	notes := cmpopts.IgnoreFields(openstack.Login{}, "Remarks", "NoProject", "CAPath")
	assert.Check(t, is.DeepEqual(login, got, notes), "login")
	wantSameRequest(t, string(text), login)
	keys := login.ManilaKeys()
	wantManilaLogin(t, keys, login)
	got, err = openstack.LoginOfManilaKeys(keys)
	check(t, err)
	got.Entry = login.Entry
	assert.Check(t, is.DeepEqual(login, got, notes), "login (-want +of Manila's keys)")
}

// combinations are all fields of auth that a login consists of.
func combinations() []string {
	return []string{
		"password: pw", "username: u", "user_id: ui", "user_domain_name: ud", "user_domain_id: udi",
		"project_name: p", "project_id: pi", "project_domain_name: pd", "project_domain_id: pdi",
		"domain_name: d", "domain_id: di", "default_domain: dd", "application_credential_id: ci",
		"application_credential_name: cn", "application_credential_secret: cs",
	}
}

// sendable returns true if the drivers' reader of clouds.yaml can log in with the text.
func sendable(t *testing.T, text string) bool {
	t.Helper()
	var file clientconfig.Clouds
	check(t, yaml.Unmarshal([]byte(text), &file))
	opts, err := clientconfig.AuthOptions(&clientconfig.ClientOpts{
		EnvPrefix: "UNUSED_", AuthInfo: file.Clouds["openstack"].AuthInfo,
	})
	check(t, err)
	scope, err := opts.ToTokenV3ScopeMap()
	if err == nil {
		_, err = opts.ToTokenV3CreateMap(scope)
	}
	return err == nil
}

// A login is accepted if and only if the drivers can use it, and means the same for all readers.
func TestEachCombinationOfFieldsMeansWhatItMeansToTheDrivers(t *testing.T) {
	t.Parallel()
	fields := combinations()
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
		assert.Assert(t, (err == nil) == sendable(t, text), "%v, the drivers differ:\n%s", err, text)
		if err == nil {
			accepted++
			wantSameRequest(t, text, login)
			wantSurvives(t, login)
		}
	}
	assert.Check(t, accepted != 0, "no combination was accepted")
}

// FuzzLogin proves that no text causes a panic or a message that contains the password, and that an
// accepted login survives. Messages contain the names of entries and keys, so texts with the
// password there are skipped.
func FuzzLogin(f *testing.F) {
	for _, test := range mistakesWithSecrets(f) {
		f.Add(test.text)
	}
	for _, test := range logins() {
		f.Add(test.text)
	}
	f.Add(cloudsText)
	f.Add(credentialText)
	f.Add("clouds: &a {openstack: *a}")
	f.Add("a: &a [x]\nb: &b [*a,*a]\nclouds: {<<: *b}")
	f.Fuzz(func(t *testing.T, text string) {
		login, err := parsed(text)
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
