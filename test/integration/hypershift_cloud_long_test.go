//go:build integration && long

package integration

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestHyperShiftManilaFollowsCAAndCredentials(t *testing.T) {
	t.Parallel()
	e := newHosted(t, manila(), options{Cloud: simulator.Config{TLS: true}, CAInConfig: true})
	e.parts(
		part{"UsesCAOfConfigMap", e.usesCAOfConfigMap},
		part{"FollowsDeletedCopies", e.followsDeletedCopies},
	)
}

// usesCAOfConfigMap checks that operator, controllers and nodes use a CA that only the control
// plane's ConfigMap contains, and follow its changes without a rollout.
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

	before := e.awaitIdle()
	renewed := string(e.ca) + "# renewed\n"
	withCA[caKeyOfDriver] = renewed
	e.must(e.management.putConfigMap(e.ctx(), hostedNamespace, hostedCloudCA,
		map[string]string{caKeyOfCloudProvider: renewed, "secret": "of the owner"}))
	e.within(prompt, func() error { return e.hasTranslation(withCA) })
	e.within(prompt, func() error {
		return e.hasCopiedConfig(map[string]string{caKeyOfCloudProvider: renewed})
	})
	e.mustRollOutOnly(before)

	e.must(e.management.putConfigMap(e.ctx(), hostedNamespace, hostedCloudCA,
		map[string]string{"secret": "of the owner"}))
	e.eventually(prompt, func() error {
		if err := e.hasCopiedConfig(nil); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the copy still exists without its source (%w)", err)
		}
		return nil
	})
	e.eventually(soon, func() error {
		return e.hasTestOf(opv1.ConditionFalse, unreachableReason, "unknown authority", keepsLogin)
	})
	e.must(e.hasTranslation(withCA))
	e.setHostedCA(e.ca)
	e.awaitAvailable()
	e.eventually(soon, e.credentialsAccepted)
}

// followsDeletedCopies checks that copies of the credentials in the guest cluster change nothing,
// and rotates credentials as docs/credential-rotation.md describes it for HyperShift.
func (e *env) followsDeletedCopies() {
	before := e.awaitIdle()
	name := e.driverSecret()
	inGuest := e.guest.kube.CoreV1().Secrets(e.subject.OperandNamespace)
	e.putSecret(e.subject.OperandNamespace, name, map[string][]byte{"clouds.yaml": []byte("[")})
	e.expectNoWritesFor(time.Second)
	e.restartOperator()
	e.awaitPolls(1)
	e.awaitNoWrites()
	e.must(inGuest.Delete(e.ctx(), name, metav1.DeleteOptions{}))
	e.expectNoWritesFor(time.Second)
	e.must(e.stillHas(before))

	source := e.management.kube.CoreV1().Secrets(hostedNamespace)
	copied, err := source.Get(e.ctx(), name, metav1.GetOptions{})
	e.must(err)
	data := copied.Data
	data["clouds.yaml"] = e.cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential})
	e.createCopies(data)
	e.expectNoWritesFor(time.Second)
	e.must(source.Delete(e.ctx(), name, metav1.DeleteOptions{}))
	missing := "Secret " + hostedNamespace + "/" + name + " of the management cluster is missing"
	e.eventually(soon, func() error {
		return e.hasTestOf(opv1.ConditionFalse, "InvalidCredentials", missing, keepsLogin)
	})
	e.must(e.stillHas(before))
	e.createCopies(data)
	e.mustRollOutOnly(before, e.rolledOutByLogin()...)
	e.must(e.credentialsAccepted())
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
		part{"FollowsDeletedCopies", e.followsDeletedCopies},
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

// usesCAOfCredentials adds the CA to the credentials.
func (e *cinderEnv) usesCAOfCredentials() {
	before := e.awaitIdle()
	e.options.CAInConfig = false
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
	e.mustRollOutOnly(before, cinderController)
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
