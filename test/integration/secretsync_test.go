//go:build integration

package integration

import (
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
	caFromConfigMap      = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
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
		part{"TranslatesPassword", e.translatesPassword},
		part{"RepairsTranslation", e.repairsTranslation},
		part{"KeepsTranslationOfInvalidCloudsYAML", e.keepsTranslationOfInvalidCloudsYAML},
		part{"TranslatesApplicationCredential", e.translatesApplicationCredential},
	)
}

func (e *env) translatesPassword() {
	e.eventually(installed, func() error { return e.hasTranslation(e.passwordTranslation()) })
	e.eventually(soon, func() error {
		return e.hasCondition(secretSyncDegraded, opv1.ConditionFalse, "")
	})
}

// translatesApplicationCredential checks that a change from password leaves none of the old keys,
// which the driver does not accept together with the new ones.
func (e *env) translatesApplicationCredential() {
	e.eventually(installed, func() error { return e.hasTranslation(e.passwordTranslation()) })
	info := e.cloud.Info()
	c := e.cloud.Credentials()
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential}))
	e.eventually(soon, func() error {
		return e.hasTranslation(map[string]string{
			"os-authURL": info.AuthURL, "os-region": simulator.DefaultRegion, "os-endpointType": "public",
			"os-applicationCredentialID":     c.ApplicationCredentialID,
			"os-applicationCredentialSecret": c.ApplicationCredentialSecret,
		})
	})
}

func (e *env) repairsTranslation() {
	want := e.passwordTranslation()
	e.eventually(installed, func() error { return e.hasTranslation(want) })
	for name, change := range map[string]func(){
		"edited value": func() {
			e.patch(secrets(), operandNamespace, loginSecret, `{"stringData":{"os-region":"elsewhere"}}`)
		},
		"foreign key": func() {
			e.patch(secrets(), operandNamespace, loginSecret, `{"stringData":{"os-trustID":"mine"}}`)
		},
		"removed key": func() {
			e.patch(secrets(), operandNamespace, loginSecret, `{"data":{"os-password":null}}`)
		},
		"deleted": func() {
			e.delete(secrets(), operandNamespace, loginSecret)
		},
	} {
		e.sub(name, func(*testing.T) {
			change()
			e.within(prompt, func() error { return e.hasTranslation(want) })
		})
	}
}

// keepsTranslationOfInvalidCloudsYAML checks that a condition names Secret and key, and that a
// fixed file is translated.
func (e *env) keepsTranslationOfInvalidCloudsYAML() {
	const secret = "leaked-in-malformed-33ef"
	e.secrets = append(e.secrets, secret)
	want := e.passwordTranslation()
	e.eventually(installed, func() error { return e.hasTranslation(want) })
	for _, m := range malformedCloudsYAML(secret) {
		e.sub(m.name, func(*testing.T) {
			e.setClouds([]byte(m.text))
			e.within(prompt, func() error {
				return e.reports(secretSyncDegraded, m.message,
					"key clouds.yaml of Secret "+operandNamespace+"/"+credentialsSecret)
			})
			e.checkDriverForSecrets()
			e.must(e.hasTranslation(want))
			e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
			e.within(soon, func() error {
				return e.hasCondition(secretSyncDegraded, opv1.ConditionFalse, "")
			})
		})
	}
}
