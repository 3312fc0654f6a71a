//go:build integration

package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const shareTypesCall = "GET /share/v2/types"

func TestLogsInOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.parts(
		part{"ProbesWithOneRequest", e.probesWithOneRequest},
		part{"LogsInOnceForRevokedToken", e.logsInOnceForRevokedToken},
		part{"UsesRotatedCredentials", e.usesRotatedCredentials},
		part{"KeepsTranslationOfInvalidCloudsYAML", e.keepsTranslationOfInvalidCloudsYAML},
	)
}

// probesWithOneRequest checks that the operator logs in once while its token is valid.
func (e *env) probesWithOneRequest() {
	e.awaitAvailable()
	e.awaitNoWrites()
	e.expectNoWritesDuring(5)
	var before, after float64
	var counters simulator.Counters
	e.eventually(soon, func() error {
		var err, errAfter error
		before, err = e.polls()
		counters = e.cloud.Counters()
		after, errAfter = e.polls()
		return errors.Join(err, errAfter)
	})
	// The operator may have sent the request of a poll that was not complete.
	if n := float64(counters.Calls[shareTypesCall]); n < before || n > after+1 {
		e.t.Errorf("%v requests for share types during %v to %v polls, want one each", n, before, after)
	}
	assert.Check(e.t, counters.LoginAttempts == 1, "%d logins, want 1", counters.LoginAttempts)
	others := counters.Total() - counters.Calls[shareTypesCall] - counters.LoginAttempts -
		counters.Calls["GET /share/v2/shares/detail"] // what is in error
	if others > 2 {
		e.t.Errorf("%d requests are neither logins nor lists of share types, want at most those for "+
			"the versions and the quotas of Manila: %v", others, counters.Calls)
	}
}

// logsInOnceForRevokedToken checks that the operator reports nothing.
func (e *env) logsInOnceForRevokedToken() {
	e.awaitAvailable()
	e.awaitNoWrites()
	since := e.mark()
	revoked := e.cloud.RevokeTokens()
	assert.Check(e.t, revoked == 1, "the operator held %d tokens, want 1", revoked)
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

// rotate changes the credentials that the cloud accepts.
func (e *env) rotate(rotation simulator.Rotation) {
	e.t.Helper()
	rotation.Password = fmt.Sprintf("leaked-password-%d-rotated", len(e.secrets))
	rotation.ApplicationCredentialSecret = "leaked-application-" + rotation.Password
	e.cloud.RotateCredentials(rotation)
	e.secrets = append(e.secrets, rotation.Password, rotation.ApplicationCredentialSecret)
}

// usesRotatedCredentials checks that the operator uses new credentials even after refused ones.
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
	e.eventually(translationPromptly, func() error { return e.hasTranslation(want) })
	e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionTrue, "") })
	e.awaitAvailable()
}

const (
	loginSecret          = "csi-manila-secrets"
	credentialsSecret    = "manila-cloud-credentials"
	secretSyncDegraded   = "ManilaSecretSyncControllerDegraded"
	translationPromptly  = 2 * time.Second
	cloudProviderConfig  = "cloud-provider-config"
	openshiftConfig      = "openshift-config"
	caKeyOfCloudProvider = "ca-bundle.pem"
)

// hasTranslation returns nil if csi-manila-secrets contains exactly this data.
func (e *env) hasTranslation(want map[string]string) error {
	got, err := e.operandSecret(loginSecret)
	if err != nil {
		return err
	}
	return checkEqual(want, got)
}

// passwordTranslation returns the data of csi-manila-secrets for the clouds.yaml with a password.
func (e *env) passwordTranslation() map[string]string {
	e.t.Helper()
	info := e.cloud.Info()
	c := e.cloud.Credentials()
	return map[string]string{
		"os-authURL": info.AuthURL, "os-region": simulator.DefaultRegion, "os-endpointType": "public",
		"os-userName": c.UserName, "os-password": c.Password,
		"os-domainName": c.DomainName, "os-userDomainName": c.DomainName,
		"os-projectName": c.ProjectName, "os-projectDomainName": c.DomainName,
	}
}

// keepsTranslationOfInvalidCloudsYAML checks that a condition names Secret and key, and that a
// fixed file is translated.
func (e *env) keepsTranslationOfInvalidCloudsYAML() {
	const secret = "leaked-in-malformed-33ef"
	e.secrets = append(e.secrets, secret)
	want := e.passwordTranslation()
	e.setClouds([]byte("clouds: {openstack: {auth: {password: '" + secret + "\n"))
	e.eventually(prompt, func() error {
		return e.reports(secretSyncDegraded, "not valid YAML",
			"key clouds.yaml of Secret "+operandNamespace+"/"+credentialsSecret)
	})
	e.checkDriverForSecrets()
	e.must(e.hasTranslation(want))
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential}))
	e.eventually(soon, func() error {
		got, err := e.operandSecret(loginSecret)
		if err == nil {
			want := e.cloud.Credentials().ApplicationCredentialID
			err = checkEqual(want, got["os-applicationCredentialID"])
		}
		return errors.Join(err, e.hasCondition(secretSyncDegraded, opv1.ConditionFalse, ""))
	})
}
