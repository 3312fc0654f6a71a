//go:build integration

package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestTrustedCA: a CA that only the cluster trusts, as that of a proxy which intercepts TLS, is enough to reach the cloud. The
// operator makes the ConfigMap for the network operator before the cloud has answered, and does not wait for a poll when it is
// filled or changed.
func TestTrustedCA(t *testing.T) {
	t.Parallel()
	reachableOf := map[string]string{driverName: reachable, cinder().driver: cinderReachable}
	for _, s := range subjects() {
		for _, f := range flavour.All() {
			t.Run(s.program+" "+string(f), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, options{Flavour: f, Subject: s, Cloud: simulator.Config{TLS: true}, NoCA: true, PollInterval: time.Minute})
				unknown := outageCase{"without the CA", unreachableReason, simulator.Fault{}, "unknown authority"}
				e.eventually(soon, func() error { return e.reportsOutage(reachableOf[s.driver], opv1.ConditionFalse, unknown) })
				e.eventually(soon, e.hasTrustedCAConfigMap)

				e.injectTrustedCAs(string(e.ca))
				e.eventually(soon, func() error { return e.hasCondition(reachableOf[s.driver], opv1.ConditionTrue, "") })
				e.awaitAvailable()

				e.injectTrustedCAs("# another bundle\n")
				e.eventually(soon, func() error { return e.reportsOutage(reachableOf[s.driver], opv1.ConditionFalse, unknown) })
				e.injectTrustedCAs(string(e.ca))
				e.eventually(soon, func() error { return e.hasCondition(reachableOf[s.driver], opv1.ConditionTrue, "") })
			})
		}
	}
}

// hasTrustedCAs returns nil if the ConfigMap for the trusted CAs is there, for the network operator to fill.
func (e *env) hasTrustedCAConfigMap() error {
	config, err := e.management.kube.CoreV1().ConfigMaps(e.subject.controllerNamespace).Get(e.ctx(), e.subject.trustedCA, metav1.GetOptions{})
	if err == nil && config.Labels["config.openshift.io/inject-trusted-cabundle"] != "true" {
		err = errors.New("the network operator does not fill it: it lacks the label")
	}
	return err
}

// fillTrustedCAs plays the network operator, in the cluster that the operator runs in.
func (e *env) injectTrustedCAs(bundle string) {
	e.t.Helper()
	in := collection{configMaps(), e.subject.controllerNamespace}
	e.must(e.management.patch(e.ctx(), in, e.subject.trustedCA, fmt.Sprintf(`{"data":{%q:%q}}`, trustedCAKey, bundle)))
}
