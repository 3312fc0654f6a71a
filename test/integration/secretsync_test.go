//go:build integration

package integration

import (
	"strings"
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
		part{"TranslatesRotatedCredentials", e.translatesRotatedCredentials},
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

func (e *env) translatesRotatedCredentials() {
	e.eventually(installed, func() error { return e.hasTranslation(e.passwordTranslation()) })
	e.cloud.RotateCredentials(simulator.Rotation{Password: "leaked-rotated-password-77aa"})
	e.secrets = append(e.secrets, "leaked-rotated-password-77aa")
	text, want := e.cloud.CloudsYAML(simulator.Clouds{}), e.passwordTranslation()
	e.setClouds(text)
	e.within(translationPromptly, func() error { return e.hasTranslation(want) })
}

// keepsTranslationOfInvalidCloudsYAML checks that a condition names Secret and key, and that a
// fixed file is translated.
func (e *env) keepsTranslationOfInvalidCloudsYAML() {
	const malformed = "leaked-in-malformed-33ef"
	e.secrets = append(e.secrets, malformed)
	want := e.passwordTranslation()
	e.eventually(installed, func() error { return e.hasTranslation(want) })
	good := e.cloud.CloudsYAML(simulator.Clouds{})
	for name, text := range map[string]string{
		"no YAML":        "clouds:\n  openstack:\n    auth: {password: " + malformed + "\n  ]",
		"wrong type":     "clouds:\n  openstack:\n    auth: " + malformed + "\n",
		"only a comment": "# " + malformed + "\n",
		"no password": "clouds:\n  openstack:\n    auth: {auth_url: https://keystone.example.com, " +
			"username: " + malformed + "}\n",
		"no URL": "clouds:\n  openstack:\n    auth: {auth_url: '" + malformed +
			"', username: u, password: p}\n",
	} {
		e.sub(name, func(*testing.T) {
			e.putSecret(operandNamespace, credentialsSecret, map[string][]byte{"clouds.yaml": []byte(text)})
			e.within(prompt, func() error {
				return e.hasCondition(secretSyncDegraded, opv1.ConditionTrue, "")
			})
			message := e.message(secretSyncDegraded)
			e.must(e.reports(secretSyncDegraded,
				"Secret "+operandNamespace+"/"+credentialsSecret, "clouds.yaml"))
			if strings.Contains(message, malformed) {
				e.t.Errorf("the message quotes the file: %q", message)
			}
			if err := e.hasTranslation(want); err != nil {
				e.t.Errorf("the operator changed the translation: %v", err)
			}
			e.putSecret(operandNamespace, credentialsSecret, map[string][]byte{"clouds.yaml": good})
			e.within(soon, func() error {
				return e.hasCondition(secretSyncDegraded, opv1.ConditionFalse, "")
			})
		})
	}
}
