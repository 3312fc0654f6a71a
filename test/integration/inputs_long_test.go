//go:build integration && long

package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
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

// inputs returns all rollout inputs and the workloads that they roll out.
func inputs() map[string]input {
	return map[string]input{
		"trusted CA bundle": {
			put: func(e *env, content string) {
				e.patch(configMaps(), operandNamespace, trustedCABundle,
					fmt.Sprintf(`{"data":{%q:%q}}`, trustedCAKey, content))
			},
			rolls: manila().Workloads, listed: "configmap/" + trustedCABundle,
		},
		"metrics certificate": {
			put: func(e *env, content string) {
				e.putSecret(operandNamespace, servingCertificate,
					map[string][]byte{"tls.crt": []byte(content), "tls.key": []byte("key")})
			},
			rolls: []string{controllerName, nodeName}, listed: "secret/" + servingCertificate,
		},
	}
}

// TestReachesCloudWithTrustedCA checks that a CA in the trusted CA bundle is enough, such as the CA
// of a proxy that intercepts TLS. The operator creates the ConfigMap before the cloud is reachable
// and follows its changes without waiting for a poll. All combinations share the code, so each
// operator and each flavour is tested once.
func TestReachesCloudWithTrustedCA(t *testing.T) {
	t.Parallel()
	for f, s := range map[flavour.Flavour]subject{
		flavour.Standalone: manila(), flavour.HyperShift: cinder(),
	} {
		t.Run(s.Program+" "+string(f), func(t *testing.T) {
			t.Parallel()
			reachable := ofSubject(s, reachable, cinderReachable)
			e := newEnv(t, options{
				Flavour: f, Subject: s, Cloud: simulator.Config{TLS: true}, NoCA: true,
				PollInterval: time.Minute,
			})
			unknown := func() error {
				return e.hasCondition(reachable, opv1.ConditionFalse, unreachableReason, "unknown authority")
			}
			known := func() error { return e.hasCondition(reachable, opv1.ConditionTrue, "") }
			e.eventually(soon, unknown)
			e.eventually(soon, e.hasTrustedCAConfigMap)

			e.injectTrustedCAs(string(e.ca))
			e.eventually(soon, known)
			e.awaitAvailable()

			e.injectTrustedCAs("# another bundle\n")
			e.eventually(soon, func() error {
				return e.hasTestOf(opv1.ConditionFalse, unreachableReason, "unknown authority", keepsLogin)
			})
			e.injectTrustedCAs(string(e.ca))
			e.eventually(soon, e.credentialsAccepted)
		})
	}
}

// hasTrustedCAConfigMap returns nil if the ConfigMap exists with the label that makes the cluster
// network operator fill it.
func (e *env) hasTrustedCAConfigMap() error {
	config, err := e.management.kube.CoreV1().ConfigMaps(e.subject.controllerNamespace).
		Get(e.ctx(), e.subject.trustedCA, metav1.GetOptions{})
	if err == nil && config.Labels["config.openshift.io/inject-trusted-cabundle"] != "true" {
		err = errors.New("the label for the injection of the bundle is missing")
	}
	return err
}

// injectTrustedCAs fills the ConfigMap as the cluster network operator does.
func (e *env) injectTrustedCAs(bundle string) {
	e.t.Helper()
	in := collection{configMaps(), e.subject.controllerNamespace}
	e.must(e.management.patch(e.ctx(), in, e.subject.trustedCA,
		fmt.Sprintf(`{"data":{%q:%q}}`, trustedCAKey, bundle)))
}
