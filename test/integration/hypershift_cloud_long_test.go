//go:build integration && long

package integration

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestHyperShiftManilaFollowsCAAndCredentials(t *testing.T) {
	t.Parallel()
	e := newHosted(t, manila(), options{Cloud: simulator.Config{TLS: true}, CAInConfig: true})
	e.parts(
		part{"UsesCAOfConfigMap", e.usesCAOfConfigMap},
		part{"SidesUseTheirOwnCredentials", e.sidesUseTheirOwnCredentials},
		part{"RollsOutOnceAfterCopiesAreDeleted", func() {
			e.rollsOutOnceAfterCopiesAreDeleted(controllerName, nodeName)
		}},
	)
}

// usesCAOfConfigMap checks that operator, controllers and nodes use a CA that only the control
// plane's ConfigMap contains, and follow its changes. At the end only the operator has the CA.
func (e *hostedEnv) usesCAOfConfigMap() {
	plain := e.passwordTranslation()
	withCA := maps.Clone(plain)
	withCA[caKeyOfDriver] = string(e.ca)
	e.awaitAvailable()
	e.must(e.hasCondition(reachable, opv1.ConditionTrue, ""))
	e.eventually(prompt, func() error { return e.hasTranslation(withCA) })
	e.eventually(prompt, func() error {
		return e.hasCopiedConfig(map[string]string{caKeyOfCloudProvider: string(e.ca)})
	})
	for name, source := range map[string]string{
		controllerName: hostedCloudCA,
		nodeName:       cloudProviderConfig,
	} {
		w, err := e.workload(name)
		e.must(err)
		want := "configMap " + source + " optional ca-bundle.pem->ca-bundle.pem"
		if got := mountedAt(w, caFromConfigMap); got != want {
			e.t.Errorf("%s mounts %q at %s, want %q", name, got, caFromConfigMap, want)
		}
	}

	e.awaitNoWrites()
	before := e.workloads()
	renewed := string(e.ca) + "# renewed\n"
	e.setHostedCA([]byte(renewed))
	e.awaitRollout(before, []string{controllerName, nodeName})
	e.must(e.hasCopiedConfig(map[string]string{caKeyOfCloudProvider: renewed}))
	e.must(e.management.putConfigMap(e.ctx(), hostedNamespace, hostedCloudCA,
		map[string]string{caKeyOfCloudProvider: "another", "secret": "of the owner"}))
	e.within(prompt, func() error {
		return e.hasCopiedConfig(map[string]string{caKeyOfCloudProvider: "another"})
	})

	e.must(e.management.putConfigMap(e.ctx(), hostedNamespace, hostedCloudCA,
		map[string]string{"secret": "of the owner"}))
	e.within(prompt, func() error { return e.hasTranslation(plain) })
	e.eventually(prompt, func() error {
		if err := e.hasCopiedConfig(nil); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the copy still exists without its source (%w)", err)
		}
		return nil
	})
	e.awaitAvailable()
}

// sidesUseTheirOwnCredentials checks that csi-manila-secrets follows the credentials in the guest
// cluster, and that each workload rolls out for the credentials of its side only.
func (e *hostedEnv) sidesUseTheirOwnCredentials() {
	want := e.passwordTranslation()
	e.awaitAvailable()
	e.eventually(prompt, func() error { return e.hasTranslation(want) })
	e.awaitNoWrites()
	clouds := e.cloud.CloudsYAML(simulator.Clouds{})

	before := e.workloads()
	e.must(e.management.putSecret(e.ctx(), hostedNamespace, credentialsSecret,
		map[string][]byte{"clouds.yaml": append(clouds, "# another\n"...)}))
	e.awaitRollout(before, []string{controllerName})
	e.must(e.hasTranslation(want))

	const password = "leaked-password-of-the-guest"
	e.secrets = append(e.secrets, password)
	before = e.workloads()
	text := strings.ReplaceAll(string(clouds), e.options.Cloud.Credentials.Password, password)
	e.putSecret(operandNamespace, credentialsSecret, map[string][]byte{"clouds.yaml": []byte(text)})
	want["os-password"] = password
	e.within(prompt, func() error { return e.hasTranslation(want) })
	e.awaitRollout(before, []string{nodeName})

	e.putSecret(operandNamespace, credentialsSecret,
		map[string][]byte{"clouds.yaml": []byte("clouds: [")})
	e.within(prompt, func() error {
		return e.reports(secretSyncDegraded,
			"Secret "+operandNamespace+"/"+credentialsSecret+" of the guest cluster",
			hostedNamespace+"/"+credentialsSecret)
	})
	e.must(e.hasTranslation(want))
	e.putSecret(operandNamespace, credentialsSecret, map[string][]byte{"clouds.yaml": clouds})
	e.awaitAvailable()
}

// rollsOutOnceAfterCopiesAreDeleted rotates credentials as docs/credential-rotation.md describes it
// for HyperShift.
func (e *env) rollsOutOnceAfterCopiesAreDeleted(rolled ...string) {
	e.awaitAvailable()
	e.awaitNoWrites()
	before := e.workloads()
	fresh := e.cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential})
	name := e.subject.Credentials[0].Name
	copied, err := e.management.kube.CoreV1().Secrets(hostedNamespace).
		Get(e.ctx(), name, metav1.GetOptions{})
	e.must(err)
	data := copied.Data
	data["clouds.yaml"] = fresh
	e.createCopies(data)
	e.expectNoWritesFor(time.Second)

	for _, at := range e.driverNamespaces() {
		e.must(at.cluster.kube.CoreV1().Secrets(at.namespace).
			Delete(e.ctx(), name, metav1.DeleteOptions{}))
		e.eventually(soon, func() error {
			return e.hasEvent("RolloutInputMissing", at.namespace+"/"+name)
		})
	}
	e.mustHaveWorkloads(before)
	e.createCopies(data)
	e.must(paths.WriteFile(e.files.OpenStackClouds(e.subject.Name), fresh)) // as the kubelet does
	e.awaitRollout(before, rolled)
}

// createCopies plays HyperShift, which writes clouds.yaml into the copies of the credentials only
// when it creates them.
func (e *env) createCopies(data map[string][]byte) {
	e.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: e.subject.Credentials[0].Name}, Data: data,
	}
	for _, at := range e.driverNamespaces() {
		_, err := at.cluster.kube.CoreV1().Secrets(at.namespace).
			Create(e.ctx(), secret, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			e.must(err)
		}
	}
}

// TestHyperShiftCinderFollowsCAAndConfig checks that the owners of the control plane configure the
// driver, and that the guest cluster's administrator cannot.
func TestHyperShiftCinderFollowsCAAndConfig(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{
		Flavour: flavour.HyperShift, Cloud: simulator.Config{TLS: true}, CAInConfig: true,
		Before: func(e *env) {
			guests := map[string]string{
				"config":    "[BlockStorage]\nrescan-on-resize = true\n",
				topologyKey: "false",
			}
			e.putConfigMap(openshiftConfig, cinderUserConfig, guests)
			e.putConfigMap(openshiftConfig, cloudProviderConfig, guests)
			e.setCloudConfigKey("config")
		},
	})
	some := invalidConfigs()
	maps.DeleteFunc(some, func(name string, _ invalidConfig) bool {
		return name != "not a number" && name != "not a boolean"
	})
	e.parts(
		part{"UsesCAOfConfigMap", e.usesCAOfConfigMap},
		part{"UsesCAOfCredentialsBeforeConfigMap", e.usesCAOfCredentials},
		part{"RepairsConfig", e.mustRepairConf},
		part{"IgnoresConfigOfGuest", e.ignoresConfigOfGuest},
		part{"KeepsConfigWhileUserConfigIsInvalid", func() {
			e.mustRejectAll(
				"ConfigMap "+hostedNamespace+"/"+cinderUserConfig+" of the management cluster", some)
		}},
		part{"RollsOutOnceAfterCopiesAreDeleted", func() {
			e.rollsOutOnceAfterCopiesAreDeleted(e.subject.Workloads...)
		}},
	)
}

func (e *cinderEnv) usesCAOfConfigMap() {
	e.awaitAvailable()
	e.must(e.hasCondition(cinderReachable, opv1.ConditionTrue, ""))
	conf, err := e.cloudConf()
	e.must(err)
	if conf[caKeyOfCloudProvider] != string(e.ca) {
		e.t.Errorf("the driver's CA is %q, want the cloud's", conf[caKeyOfCloudProvider])
	}
}

// usesCAOfCredentials adds the CA to the credentials. At the end only the operator has a CA.
func (e *cinderEnv) usesCAOfCredentials() {
	e.awaitNoWrites()
	before := e.workloads()
	e.options.CAInConfig = false
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
	e.awaitRollout(before, e.subject.Workloads)
	e.mustUseCA()
}

func (e *cinderEnv) ignoresConfigOfGuest() {
	e.mustApply(append(userConfigSteps(), configStep{"deleted", func(e *env) {
		e.deleteUserConfig()
	}, "", "true"}))
	e.awaitAvailable()
	e.awaitNoWrites()
	e.putConfigMap(openshiftConfig, cinderUserConfig, map[string]string{"config": "[BlockStorage\n"})
	e.setCloudConfigKey("another")
	e.expectNoWritesFor(time.Second)
	e.must(e.available())
}
