//go:build integration

package integration

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	driverSecret         = "csi-manila-secrets"
	credentialsSecret    = "manila-cloud-credentials"
	secretSyncDegraded   = "ManilaSecretSyncControllerDegraded"
	caFromConfigMap      = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
	caKeyOfDriver        = "os-certAuthority"
	translationPromptly  = 2 * time.Second
	cloudProviderConfig  = "cloud-provider-config"
	openshiftConfig      = "openshift-config"
	caKeyOfCloudProvider = "ca-bundle.pem"
)

// hasTranslation returns nil if the driver's Secret has exactly this data.
func (e *env) hasTranslation(want map[string]string) error {
	got, err := e.operandSecret(driverSecret)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("the translation differs (-want +got):\n%s", diff)
	}
	return nil
}

// passwordTranslation is what the driver reads of the simulator's password clouds.yaml.
func (e *env) passwordTranslation() map[string]string {
	e.t.Helper()
	info, err := e.cloud.Info(e.ctx())
	e.must(err)
	c, err := e.cloud.Credentials(e.ctx())
	e.must(err)
	return map[string]string{
		"os-authURL": info.AuthURL, "os-region": simulator.DefaultRegion, "os-endpointType": "public",
		"os-userName": c.UserName, "os-password": c.Password,
		"os-domainName": c.DomainName, "os-userDomainName": c.DomainName,
		"os-projectName": c.ProjectName, "os-projectDomainName": c.DomainName,
	}
}

// TestTranslatesPassword: a password cloud becomes exactly the keys that the driver takes together.
func TestTranslatesPassword(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.eventually(installed, func() error { return e.hasTranslation(e.passwordTranslation()) })
	e.eventually(soon, func() error { return e.hasCondition(secretSyncDegraded, opv1.ConditionFalse, "") })
}

// TestTranslatesApplicationCredential: an application credential becomes its explicit keys (fault 32), and a change from
// password leaves none of the old keys, which exclude the new ones.
func TestTranslatesApplicationCredential(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.eventually(installed, func() error { return e.hasTranslation(e.passwordTranslation()) })
	info, err := e.cloud.Info(e.ctx())
	e.must(err)
	c, err := e.cloud.Credentials(e.ctx())
	e.must(err)
	e.setClouds(e.cloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential}))
	e.eventually(soon, func() error {
		return e.hasTranslation(map[string]string{
			"os-authURL": info.AuthURL, "os-region": simulator.DefaultRegion, "os-endpointType": "public",
			"os-applicationCredentialID":     c.ApplicationCredentialID,
			"os-applicationCredentialSecret": c.ApplicationCredentialSecret,
		})
	})
}

// TestTranslationIsRepaired: an edited, extended or deleted translation comes back (fault 11).
func TestTranslationIsRepaired(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	want := e.passwordTranslation()
	e.eventually(installed, func() error { return e.hasTranslation(want) })
	for name, spoil := range map[string]func(){
		"edited value": func() { e.patch(secrets(), operandNamespace, driverSecret, `{"stringData":{"os-region":"elsewhere"}}`) },
		"foreign key":  func() { e.patch(secrets(), operandNamespace, driverSecret, `{"stringData":{"os-trustID":"mine"}}`) },
		"removed key":  func() { e.patch(secrets(), operandNamespace, driverSecret, `{"data":{"os-password":null}}`) },
		"deleted": func() {
			e.must(e.guest.kube.CoreV1().Secrets(operandNamespace).Delete(e.ctx(), driverSecret, metav1.DeleteOptions{}))
		},
	} {
		e.sub(name, func(*testing.T) {
			spoil()
			e.within(prompt, func() error { return e.hasTranslation(want) })
		})
	}
}

// TestRotatedCredentialsAreTranslated: new credentials reach the driver within 2 s.
func TestRotatedCredentialsAreTranslated(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.eventually(installed, func() error { return e.hasTranslation(e.passwordTranslation()) })
	_, err := e.cloud.RotateCredentials(e.ctx(), simulator.Rotation{Password: "leaked-rotated-password-77aa"})
	e.must(err)
	e.secrets = append(e.secrets, "leaked-rotated-password-77aa")
	text, want := e.cloudsYAML(simulator.Clouds{}), e.passwordTranslation()
	e.setClouds(text)
	e.within(translationPromptly, func() error { return e.hasTranslation(want) })
}

// TestMalformedCloudsYAML: a condition names Secret and key, the old translation stays, and a corrected file is taken.
func TestMalformedCloudsYAML(t *testing.T) {
	t.Parallel()
	const malformed = "leaked-in-malformed-33ef"
	e := newEnv(t, options{})
	e.secrets = append(e.secrets, malformed)
	want := e.passwordTranslation()
	e.eventually(installed, func() error { return e.hasTranslation(want) })
	good := e.cloudsYAML(simulator.Clouds{})
	for name, text := range map[string]string{
		"no YAML":       "clouds:\n  openstack:\n    auth: {password: " + malformed + "\n  ]",
		"wrong type":    "clouds:\n  openstack:\n    auth: " + malformed + "\n",
		"nothing in it": "# " + malformed + "\n",
		"no password":   "clouds:\n  openstack:\n    auth: {auth_url: https://keystone.example.com, username: " + malformed + "}\n",
		"no URL":        "clouds:\n  openstack:\n    auth: {auth_url: '" + malformed + "', username: u, password: p}\n",
	} {
		e.sub(name, func(t *testing.T) {
			e.putSecret(operandNamespace, credentialsSecret, map[string][]byte{"clouds.yaml": []byte(text)})
			e.within(prompt, func() error { return e.hasCondition(secretSyncDegraded, opv1.ConditionTrue, "") })
			conditions, err := e.conditions()
			e.must(err)
			message := conditions[secretSyncDegraded].Message
			for _, part := range []string{"Secret " + operandNamespace + "/" + credentialsSecret, "clouds.yaml"} {
				if !strings.Contains(message, part) {
					t.Errorf("the message is %q, want %q in it", message, part)
				}
			}
			if strings.Contains(message, malformed) {
				t.Errorf("the message quotes the file: %q", message)
			}
			if err := e.hasTranslation(want); err != nil {
				t.Errorf("the old translation did not stay: %v", err)
			}
			e.putSecret(operandNamespace, credentialsSecret, map[string][]byte{"clouds.yaml": good})
			e.within(soon, func() error { return e.hasCondition(secretSyncDegraded, opv1.ConditionFalse, "") })
		})
	}
}

// TestMissingCredentialsSecret: its absence is told with its name and what to do; its arrival is enough.
func TestMissingCredentialsSecret(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Before: func(e *env) {
		e.must(e.guest.kube.CoreV1().Secrets(operandNamespace).Delete(e.ctx(), credentialsSecret, metav1.DeleteOptions{}))
	}})
	e.eventually(installed, func() error { return e.hasCondition(secretSyncDegraded, opv1.ConditionTrue, "") })
	conditions, err := e.conditions()
	e.must(err)
	for _, part := range []string{operandNamespace + "/" + credentialsSecret, "missing"} {
		if message := conditions[secretSyncDegraded].Message; !strings.Contains(message, part) {
			t.Errorf("the message is %q, want %q in it", message, part)
		}
	}
	e.setClouds(e.cloudsYAML(simulator.Clouds{}))
	e.within(soon, func() error { return e.hasTranslation(e.passwordTranslation()) })
	e.awaitAvailable()
}

// TestTranslatesCA: the driver's Secret contains the CA of the credentials, or else the one of the ConfigMap, and never the path in
// clouds.yaml, which belongs to the installer's host.
func TestTranslatesCA(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Cloud: simulator.Config{TLS: true}})
	aCA, anotherCA := string(e.ca), string(e.ca)+"# another\n"
	plain := e.passwordTranslation()
	withCA := func(ca string) map[string]string {
		want := maps.Clone(plain)
		want[caKeyOfDriver] = ca
		return want
	}
	e.eventually(installed, func() error { return e.hasTranslation(withCA(aCA)) })

	text := e.cloudsYAML(simulator.Clouds{CACert: "/home/installer/ca.pem"})
	e.putSecret(operandNamespace, credentialsSecret, map[string][]byte{"clouds.yaml": text, "cacert": []byte(aCA)})
	e.within(prompt, func() error { return e.hasTranslation(withCA(aCA)) })

	e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{caKeyOfCloudProvider: anotherCA, "config": "[Global]"})
	e.eventually(soon, func() error { return e.hasCopiedCA(anotherCA) })
	if err := e.hasTranslation(withCA(aCA)); err != nil {
		t.Error(err)
	}

	e.putSecret(operandNamespace, credentialsSecret, map[string][]byte{"clouds.yaml": text})
	e.within(prompt, func() error { return e.hasTranslation(withCA(anotherCA)) })

	e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{"config": "nothing of a CA"})
	e.within(prompt, func() error { return e.hasTranslation(plain) })
}

// hasCopiedCA returns nil if the operands' copy of cloud-provider-config contains the CA and nothing else.
func (e *env) hasCopiedCA(ca string) error {
	config, err := e.guest.kube.CoreV1().ConfigMaps(operandNamespace).Get(e.ctx(), cloudProviderConfig, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return checkEqual(map[string]string{caKeyOfCloudProvider: ca}, config.Data)
}

// TestCopiesCA: the ConfigMap with the cloud's CA is copied and kept equal (fault 31), and both who talk to the cloud mount it
// (fault 30), at the path that the driver is told.
func TestCopiesCA(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Cloud: simulator.Config{TLS: true}})
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.hasCopiedCA(string(e.ca)) })
	for _, name := range []string{controllerName, nodeName} {
		w, err := e.workload(name)
		e.must(err)
		for path, source := range map[string]string{
			caFromConfigMap:         "configMap " + cloudProviderConfig + " optional ca-bundle.pem->ca-bundle.pem",
			"/etc/openstack/ca.crt": "secret " + credentialsSecret + " optional cacert->ca.crt",
		} {
			if got := mountedAt(w, path); got != source {
				t.Errorf("%s mounts %q at %s, want %q", name, got, path, source)
			}
		}
	}

	e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{caKeyOfCloudProvider: "a renewed CA"})
	e.within(prompt, func() error { return e.hasCopiedCA("a renewed CA") })
	e.must(e.guest.kube.CoreV1().ConfigMaps(operandNamespace).Delete(e.ctx(), cloudProviderConfig, metav1.DeleteOptions{}))
	e.within(prompt, func() error { return e.hasCopiedCA("a renewed CA") })
}

// mountedAt says what the driver's container finds at a path: kind, name, whether it may be missing, key and file.
func mountedAt(w workload, path string) string {
	c, err := w.container("csi-driver")
	if err != nil {
		return err.Error()
	}
	for _, mount := range c.VolumeMounts {
		file, ok := strings.CutPrefix(path, strings.TrimSuffix(mount.MountPath, "/")+"/")
		if !ok {
			continue
		}
		for _, source := range volumeSources(w.Pod, mount.Name) {
			if strings.HasSuffix(source, "->"+file) {
				return source
			}
		}
	}
	return "nothing"
}
