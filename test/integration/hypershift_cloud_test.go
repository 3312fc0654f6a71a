//go:build integration

package integration

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestHyperShiftManilaCA: a CA that only the control plane's ConfigMap has is used by the operator and by the controllers, and
// copied, alone, to where the nodes find it; all follow a change of it (faults 33, 60).
func TestHyperShiftManilaCA(t *testing.T) {
	t.Parallel()
	e := newHosted(t, manila(), options{Cloud: simulator.Config{TLS: true}, CAInConfig: true})
	plain := e.passwordTranslation()
	withCA := maps.Clone(plain)
	withCA[caKeyOfDriver] = string(e.ca)
	e.awaitAvailable()
	e.must(e.hasCondition(reachable, opv1.ConditionTrue, ""))
	e.eventually(prompt, func() error { return e.hasTranslation(withCA) })
	e.eventually(prompt, func() error { return e.hasCopiedConfig(map[string]string{caKeyOfCloudProvider: string(e.ca)}) })
	for name, source := range map[string]string{controllerName: hostedCloudCA, nodeName: cloudProviderConfig} {
		w, err := e.workload(name)
		e.must(err)
		if got, want := mountedAt(w, caFromConfigMap), "configMap "+source+" optional ca-bundle.pem->ca-bundle.pem"; got != want {
			t.Errorf("%s mounts %q at %s, want %q", name, got, caFromConfigMap, want)
		}
	}

	e.awaitNoWrites()
	before := e.workloads()
	renewed := string(e.ca) + "# renewed\n"
	e.setHostedCA([]byte(renewed))
	e.awaitRollout(before, []string{controllerName, nodeName})
	e.must(e.hasCopiedConfig(map[string]string{caKeyOfCloudProvider: renewed}))
	e.must(e.management.putConfigMap(e.ctx(), hostedNamespace, hostedCloudCA, map[string]string{caKeyOfCloudProvider: "another", "secret": "of the owner"}))
	e.within(prompt, func() error { return e.hasCopiedConfig(map[string]string{caKeyOfCloudProvider: "another"}) })

	e.must(e.management.putConfigMap(e.ctx(), hostedNamespace, hostedCloudCA, map[string]string{"secret": "of the owner"}))
	e.within(prompt, func() error { return e.hasTranslation(plain) })
	e.eventually(prompt, func() error {
		if err := e.hasCopiedConfig(nil); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the copy is still there, without a source (%w)", err)
		}
		return nil
	})
	e.awaitAvailable()
}

// hasCopy returns nil if the nodes' copy of the ConfigMap about the cloud is exactly this.
func (e *env) hasCopiedConfig(want map[string]string) error {
	config, err := e.guest.kube.CoreV1().ConfigMaps(operandNamespace).Get(e.ctx(), cloudProviderConfig, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return checkEqual(want, config.Data)
}

// TestHyperShiftCredentials: the driver's Secret, in the guest, is a translation of the guest's credentials, which the node plugins
// read; the controllers read those beside them. Each follows its own.
func TestHyperShiftCredentials(t *testing.T) {
	t.Parallel()
	e := newHosted(t, manila(), options{})
	want := e.passwordTranslation()
	e.awaitAvailable()
	e.eventually(prompt, func() error { return e.hasTranslation(want) })
	e.awaitNoWrites()
	clouds := e.cloudsYAML(simulator.Clouds{})

	before := e.workloads()
	e.must(e.management.putSecret(e.ctx(), hostedNamespace, credentialsSecret, map[string][]byte{"clouds.yaml": append(clouds, "# another\n"...)}))
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

	e.putSecret(operandNamespace, credentialsSecret, map[string][]byte{"clouds.yaml": []byte("clouds: [")})
	e.within(prompt, func() error {
		return e.reports(secretSyncDegraded, "Secret "+operandNamespace+"/"+credentialsSecret+" of the guest cluster", hostedNamespace+"/"+credentialsSecret)
	})
	e.must(e.hasTranslation(want))
	e.putSecret(operandNamespace, credentialsSecret, map[string][]byte{"clouds.yaml": clouds})
	e.awaitAvailable()
}

// TestHyperShiftCinderConfIsRepaired: both clusters have the same cloud-conf, whatever is done to either (fault 60).
func TestHyperShiftCinderConfIsRepaired(t *testing.T) {
	t.Parallel()
	newHostedCinder(t, options{}).mustRepairConf()
}

// TestHyperShiftCinderUserConfig: the driver is configured by those who own its control plane. What the guest's administrator can
// write does not reach a process in the management cluster (1.11-11).
func TestHyperShiftCinderUserConfig(t *testing.T) {
	t.Parallel()
	e := newHostedCinder(t, options{Before: func(e *env) {
		guests := map[string]string{"config": "[BlockStorage]\nrescan-on-resize = true\n", topologyKey: "false"}
		e.putConfigMap(openshiftConfig, cinderUserConfig, guests)
		e.putConfigMap(openshiftConfig, cloudProviderConfig, guests)
		e.setCloudConfigKey("config")
	}})
	e.awaitAvailable()
	e.must(e.hasCloudConf(map[string]string{confKey: generatedConf, topologyKey: "true"}))
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

// TestHyperShiftCinderUnusableConfig: a text that cannot be used is named with its cluster.
func TestHyperShiftCinderUnusableConfig(t *testing.T) {
	t.Parallel()
	some := invalidConfigs()
	maps.DeleteFunc(some, func(name string, _ invalidConfig) bool { return name != "no number" && name != "not a switch" })
	newHostedCinder(t, options{}).mustRejectAll("ConfigMap "+hostedNamespace+"/"+cinderUserConfig+" of the management cluster", some)
}

// TestHyperShiftCinderCA: the CA is that of the credentials, else that of the control plane's ConfigMap (fault 60).
func TestHyperShiftCinderCA(t *testing.T) {
	t.Parallel()
	newHostedCinder(t, options{Cloud: simulator.Config{TLS: true}}).mustUseCA()
}

// TestHyperShiftCinderCAInConfig: operator and driver do with the ConfigMap alone.
func TestHyperShiftCinderCAInConfig(t *testing.T) {
	t.Parallel()
	e := newHostedCinder(t, options{Cloud: simulator.Config{TLS: true}, CAInConfig: true})
	e.awaitAvailable()
	e.must(e.hasCondition(cinderReachable, opv1.ConditionTrue, ""))
	conf, err := e.cloudConf()
	e.must(err)
	if conf[caKeyOfCloudProvider] != string(e.ca) {
		t.Errorf("the driver's CA is %q, want that of the cloud", conf[caKeyOfCloudProvider])
	}
}
