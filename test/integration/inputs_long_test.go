//go:build integration && long

package integration

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestInputsAreOptional checks that the driver starts with nothing but credentials, that the
// creation of each other input rolls out once, and that the operator removes its copy of the CA.
func TestInputsAreOptional(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Cloud: simulator.Config{TLS: true}, Before: func(e *env) {
		e.delete(secrets(), operandNamespace, credentialsSecret)
		e.delete(configMaps(), openshiftConfig, cloudProviderConfig)
	}})
	e.eventually(soon, func() error {
		return e.reports(disabled, operandNamespace+"/"+credentialsSecret, "missing")
	})
	e.mustNotBeDeployed()
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
	for name, w := range e.awaitIdle().workloads {
		assert.Check(e.t, len(w.Hashes)+len(w.TemplateHashes) == 0,
			"%s has hashes %v, want none for missing objects", name, w.Hashes)
	}
	for name, in := range inputs() {
		e.sub(name, func(*testing.T) { e.mustExplainRollout(in, "at last") })
	}
	e.createCloudConfig()
	e.eventually(prompt, e.hasCopyOfCA)
	e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{})
	e.eventually(prompt, e.hasNoCopyOfCA)
	e.awaitAvailable()
}

// hasCopyOfCA returns nil if the operands' namespace contains the copy of the CA.
func (e *env) hasCopyOfCA() error {
	_, err := e.guest.kube.CoreV1().ConfigMaps(operandNamespace).
		Get(e.ctx(), cloudProviderConfig, metav1.GetOptions{})
	return err
}

// hasNoCopyOfCA returns nil if the operator has removed the copy, because its source has no CA.
func (e *env) hasNoCopyOfCA() error {
	if err := e.hasCopyOfCA(); !apierrors.IsNotFound(err) {
		return fmt.Errorf("the copy still exists without its source (%w)", err)
	}
	return nil
}
