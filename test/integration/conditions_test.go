//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/readiness"
)

// TestStartsDriversIfManilaIsFound checks all versions of the conditions from the first on: each
// has reason and message, none reports a problem, and Ready waits for all workloads. By default,
// the operator probes the cloud once and then each minute.
func TestStartsDriversIfManilaIsFound(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Types: []string{"default", "gold"}, PollInterval: -1, Idle: true})
	watch := e.watchConditions()
	began := time.Now()
	e.startOperator()
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.hasClasses("csi-manila-default", "csi-manila-gold") })
	e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionTrue, "") })
	e.eventually(soon, func() error { return e.hasEvent("ManilaFound") })
	for _, name := range []string{ready, "ManilaShareTypesServed", "ManilaSnapshotsServed"} {
		e.eventually(soon, func() error { return e.hasCondition(name, opv1.ConditionTrue, "AsExpected") })
	}
	e.awaitNoWrites()
	probes := e.cloud.Counters().Calls[shareTypesCall]
	took := time.Since(began)
	if most := 1 + int(took/time.Minute); probes < 1 || probes > most {
		t.Errorf("the operator probed the cloud %d times in %v, want once and then each minute",
			probes, took)
	}
	seen := map[string]bool{}
	versions := watch.end(e.scope)
	for _, conditions := range versions {
		version := readiness.Of(conditions)
		workloads := len(version.WithSuffix(opv1.OperatorStatusTypeAvailable))
		if version[ready].Status == opv1.ConditionTrue && workloads < len(e.subject.Workloads) {
			t.Errorf("%s was True with the state of %d workloads", ready, workloads)
		}
	}
	for _, c := range slices.Concat(versions...) {
		seen[c.Type] = true
		if c.Reason == "" || c.Message == "" || c.LastTransitionTime.IsZero() {
			t.Errorf("%s=%s had reason %q, message %q, transition %v", c.Type, c.Status, c.Reason, c.Message,
				c.LastTransitionTime)
		}
		if strings.HasSuffix(c.Type, "Disabled") ||
			strings.HasSuffix(c.Type, opv1.OperatorStatusTypeDegraded) && c.Status != opv1.ConditionFalse &&
				!strings.Contains(c.Message, "the object has been modified") { // library-go repeats the write
			t.Errorf("%s was %s during a start without problems: %s: %s", c.Type, c.Status, c.Reason,
				c.Message)
		}
	}
	assert.Check(t, len(seen) >= 12, "the watch recorded only %d conditions: %v", len(seen), seen)
}

// denyOperatorWrites makes the API server refuse the operator's writes to some resources. The
// returned function and the cleanup end that.
func (e *env) denyOperatorWrites() (allow func(context.Context) error) {
	e.t.Helper()
	allow = e.apply(e.guest, fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: denies-the-operator}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: ["", storage.k8s.io]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [serviceaccounts, storageclasses]
  validations:
  - {expression: request.userInfo.username != %q, message: not today}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: denies-the-operator}
spec: {policyName: denies-the-operator, validationActions: [Deny]}
`, operatorUser))
	config := rest.CopyConfig(e.guest.config)
	config.Impersonate.UserName = operatorUser
	operator, err := kubernetes.NewForConfig(config)
	e.must(err)
	e.eventually(soon, func() error {
		probe := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
		_, err := operator.CoreV1().ServiceAccounts(operandNamespace).
			Create(e.ctx(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "not today") {
			return fmt.Errorf("the policy is not enforced yet: %w", err)
		}
		return nil
	})
	return allow
}
