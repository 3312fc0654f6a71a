package openstack_test

import (
	"strings"
	"testing"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"
	"gotest.tools/v3/assert"
)

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
		if want := sendable(t, text); (err == nil) != want {
			t.Fatalf("got error %v, the drivers accept: %v:\n%s", err, want, text)
		}
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
	for _, test := range brokenClouds(f) {
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
