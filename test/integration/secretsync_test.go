//go:build integration

package integration

import (
	"errors"
	"testing"
	"time"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

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

// passwordTranslation returns the data of csi-manila-secrets for the simulator's clouds.yaml with a
// password.
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

func TestCredentialsAreTranslated(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.parts(
		part{"RepairsTranslation", e.repairsTranslation},
		part{"KeepsTranslationOfInvalidCloudsYAML", e.keepsTranslationOfInvalidCloudsYAML},
	)
}

func (e *env) repairsTranslation() {
	want := e.passwordTranslation()
	repaired := func() error { return e.hasTranslation(want) }
	e.eventually(installed, repaired)
	e.awaitAvailable()
	e.patch(secrets(), operandNamespace, loginSecret,
		`{"stringData":{"os-region":"elsewhere","os-trustID":"mine"},"data":{"os-password":null}}`)
	e.eventually(prompt, repaired)
	e.delete(secrets(), operandNamespace, loginSecret)
	e.eventually(prompt, repaired)
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
