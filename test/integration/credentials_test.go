//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const shareTypesCall = "GET /share/v2/types"

// malformed is an invalid clouds.yaml that contains a secret, which no message may quote.
type malformed struct{ name, text, message string }

func malformedCloudsYAML(secret string) []malformed {
	return []malformed{
		{"no YAML", "clouds: {openstack: {auth: {password: '" + secret + "\n", "not valid YAML"},
		{
			"no auth_url", "clouds: {openstack: {auth: {username: u, password: " + secret + "}}}\n",
			"clouds.openstack.auth (line 1) lacks auth_url",
		},
		{"another type", "clouds:\n  openstack:\n    auth: [" + secret + "]\n", "(line 3)"},
		{
			"other entries", "clouds:\n  a: {auth: {auth_url: 'http://127.0.0.1', password: " + secret +
				"}}\n" +
				"  b: {auth: {auth_url: 'http://127.0.0.1', password: " + secret + "}}\n",
			"no entry clouds.openstack",
		},
		{"no login", "clouds: {openstack: {auth: {auth_url: 'http://127.0.0.1:1/v3', domain_name: " +
			secret + "}}}\n", "password"},
		{"empty", "", "is empty"},
	}
}

// TestInvalidCloudsYAMLIsReported checks that the same process uses clouds.yaml, and the region in
// it, when it is fixed.
func TestInvalidCloudsYAMLIsReported(t *testing.T) {
	t.Parallel()
	const secret, region = "leaked-by-a-malformed-file", "RegionTwo"
	e := newEnv(t, options{
		Idle: true, NoCredentials: true,
		Cloud: simulator.Config{Regions: []string{simulator.DefaultRegion, region}},
	})
	e.secrets = append(e.secrets, secret)
	e.createCloudConfig()
	p := e.startOperator()
	e.eventually(soon, func() error {
		return e.hasCondition(disabled, opv1.ConditionTrue, "InvalidCredentials")
	})
	for _, m := range malformedCloudsYAML(secret) {
		e.setClouds([]byte(m.text))
		want := outageCase{name: m.name, reason: "InvalidCredentials", message: m.message}
		e.eventually(soon, func() error { return e.reportsOutage(disabled, opv1.ConditionTrue, want) })
		e.checkDriverForSecrets()
		e.mustNotBeDeployed()
	}
	e.awaitNoWrites()
	e.expectNoWritesDuring(3)
	if total := e.cloud.Counters().Total(); total > 0 {
		t.Errorf("the operator sent %d requests without a valid clouds.yaml", total)
	}
	text := string(e.cloud.CloudsYAML(simulator.Clouds{Region: region}))
	e.setClouds([]byte(text))
	e.awaitAvailable()
	for _, r := range e.cloud.Log() {
		assert.Check(t, r.Service != simulator.Share || r.Region == region,
			"the operator requested share types of region %q, want %s", r.Region, region)
	}
	e.setClouds([]byte(strings.ReplaceAll(text, region, "RegionThree")))
	e.eventually(soon, func() error {
		return e.hasTestOf(opv1.ConditionFalse, "NotOffered", "RegionThree", keepsLogin)
	})
	e.must(e.hasNoCondition(disabled))
	e.mustStillRun(p)
}

func TestLogsInOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.parts(
		part{"ProbesWithOneRequest", e.probesWithOneRequest},
		part{"LogsInOnceForRevokedToken", e.logsInOnceForRevokedToken},
		part{"ChangedCloudsYAMLCausesOneLogin", e.logsInOnceForChangedCloudsYAML},
		part{"UsesRotatedCredentials", e.usesRotatedCredentials},
	)
}

// probesWithOneRequest checks that the operator logs in once while its token is valid.
func (e *env) probesWithOneRequest() {
	e.awaitAvailable()
	e.awaitNoWrites()
	e.expectNoWritesDuring(5)
	before, err := e.polls()
	e.must(err)
	counters := e.cloud.Counters()
	after, err := e.polls()
	e.must(err)
	// The operator may have sent the request of a poll that was not complete.
	if n := float64(counters.Calls[shareTypesCall]); n < before || n > after+1 {
		e.t.Errorf("%v requests for share types during %v to %v polls, want one each", n, before, after)
	}
	if counters.LoginAttempts != 1 {
		e.t.Errorf("%d logins, want 1", counters.LoginAttempts)
	}
	others := counters.Total() - counters.Calls[shareTypesCall] - counters.LoginAttempts
	if others > 2 {
		e.t.Errorf("%d requests are neither logins nor lists of share types, want at most the discovery "+
			"of the identity service: %v", others, counters.Calls)
	}
}

// logsInOnceForRevokedToken checks that the operator reports nothing.
func (e *env) logsInOnceForRevokedToken() {
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	revoked := e.cloud.RevokeTokens()
	if revoked != 1 {
		e.t.Errorf("the operator held %d tokens, want 1", revoked)
	}
	e.eventually(soon, func() error {
		if logins := e.cloud.Counters().Logins; logins != 2 {
			return fmt.Errorf("there were %d logins, want a second", logins)
		}
		return nil
	})
	e.awaitPolls(3)
	if attempts := e.cloud.Counters().LoginAttempts; attempts != 2 {
		e.t.Errorf("%d logins, want 2", attempts)
	}
	e.expectNone("the operator wrote after a new login", e.writes(since))
	e.must(e.available())
}

// logsInOnceForChangedCloudsYAML checks changes while the old token is still valid, and that the
// operator accepts application credentials with an ID and with a name.
func (e *env) logsInOnceForChangedCloudsYAML() {
	e.rotate(simulator.Rotation{KeepTokens: true})
	for _, auth := range []simulator.Auth{
		simulator.ApplicationCredential, simulator.NamedApplicationCredential,
	} {
		e.sub(string(auth), func(*testing.T) {
			want := e.cloud.Counters().LoginAttempts + 1
			e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{Auth: auth}))
			e.awaitPolls(4)
			if logins := e.cloud.Counters().LoginAttempts; logins != want {
				e.t.Errorf("there were %d logins, want %d", logins, want)
			}
			e.must(e.hasCondition(reachable, opv1.ConditionTrue, ""))
		})
	}
	e.awaitAvailable()
}

// rotate changes the credentials that the cloud accepts.
func (e *env) rotate(rotation simulator.Rotation) {
	e.t.Helper()
	rotation.Password = fmt.Sprintf("leaked-password-%d-rotated", len(e.secrets))
	rotation.ApplicationCredentialSecret = "leaked-application-" + rotation.Password
	e.cloud.RotateCredentials(rotation)
	e.secrets = append(e.secrets, rotation.Password, rotation.ApplicationCredentialSecret)
}

// usesRotatedCredentials checks that the operator uses new credentials even after the cloud refused
// the old ones.
func (e *env) usesRotatedCredentials() {
	e.awaitAvailable()
	e.rotate(simulator.Rotation{})
	e.eventually(soon, func() error {
		return e.hasCondition(reachable, opv1.ConditionFalse, refusedReason)
	})
	e.awaitNoWrites()
	e.expectNoWritesDuring(3)
	e.must(e.hasNoCondition(disabled))
	text, want := e.cloud.CloudsYAML(simulator.Clouds{}), e.passwordTranslation()
	e.setClouds(text)
	e.within(translationPromptly, func() error { return e.hasTranslation(want) })
	e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionTrue, "") })
	e.awaitAvailable()
}
