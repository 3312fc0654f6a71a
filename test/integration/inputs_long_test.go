//go:build integration && long

package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const caKeyOfDriver = "os-certAuthority"

func TestInputsAreOptional(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Cloud: simulator.Config{TLS: true}, Before: func(e *env) {
		e.delete(secrets(), operandNamespace, credentialsSecret)
		e.delete(configMaps(), openshiftConfig, cloudProviderConfig)
	}})
	e.parts(
		part{"StartsWithoutInputs", e.startsWithoutInputs},
		part{"CopiesCA", e.copiesCA},
	)
}

// startsWithoutInputs checks that the driver starts with nothing but credentials, and that the
// creation of each other input rolls out once.
func (e *env) startsWithoutInputs() {
	e.eventually(soon, func() error {
		return e.reports(disabled, operandNamespace+"/"+credentialsSecret, "missing")
	})
	e.mustNotBeDeployed()
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
	for name, w := range e.awaitIdle().workloads {
		if len(w.Hashes)+len(w.TemplateHashes) > 0 {
			e.t.Errorf("%s has hashes %v, want none for missing objects", name, w.Hashes)
		}
	}
	for name, in := range inputs() {
		e.sub(name, func(*testing.T) { e.mustExplainRollout(in, "at last") })
	}
	e.createCloudConfig()
}

// hasCopiedConfig returns nil if the copy of cloud-provider-config in the operands' namespace
// contains exactly this data.
func (e *env) hasCopiedConfig(want map[string]string) error {
	config, err := e.guest.kube.CoreV1().ConfigMaps(operandNamespace).
		Get(e.ctx(), cloudProviderConfig, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return checkEqual(want, config.Data)
}

// hasCopiedCA returns nil if the copy contains the CA and nothing else.
func (e *env) hasCopiedCA(ca string) error {
	return e.hasCopiedConfig(map[string]string{caKeyOfCloudProvider: ca})
}

// copiesCA checks that the copy follows the installer's ConfigMap, and that controllers and nodes
// mount it where the driver expects it.
func (e *env) copiesCA() {
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.hasCopiedCA(string(e.ca)) })
	for _, name := range []string{controllerName, nodeName} {
		w, err := e.workload(name)
		e.must(err)
		for path, source := range map[string]string{
			caFromConfigMap: "configMap " + cloudProviderConfig +
				" optional ca-bundle.pem->ca-bundle.pem",
			"/etc/openstack/ca.crt": "secret " + credentialsSecret + " optional cacert->ca.crt",
		} {
			if got := mountedAt(w, path); got != source {
				e.t.Errorf("%s mounts %q at %s, want %q", name, got, path, source)
			}
		}
	}

	e.putConfigMap(openshiftConfig, cloudProviderConfig,
		map[string]string{caKeyOfCloudProvider: "a renewed CA"})
	e.within(prompt, func() error { return e.hasCopiedCA("a renewed CA") })
	e.delete(configMaps(), operandNamespace, cloudProviderConfig)
	e.within(prompt, func() error { return e.hasCopiedCA("a renewed CA") })
}
