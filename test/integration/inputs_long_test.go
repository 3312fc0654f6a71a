//go:build integration && long

package integration

import (
	"testing"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestInputsAreOptional(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Cloud: simulator.Config{TLS: true}, Before: func(e *env) {
		e.delete(secrets(), operandNamespace, credentialsSecret)
		e.delete(configMaps(), openshiftConfig, cloudProviderConfig)
	}})
	e.startsWithoutInputs()
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
