//go:build integration

package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

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
			strings.HasSuffix(c.Type, opv1.OperatorStatusTypeDegraded) && c.Status != opv1.ConditionFalse {
			t.Errorf("%s was %s during a start without problems: %s: %s", c.Type, c.Status, c.Reason,
				c.Message)
		}
	}
	assert.Check(t, len(seen) >= 12, "the watch recorded only %d conditions: %v", len(seen), seen)
}

const (
	denial = "integration-test-denies-the-operator"
)

// denyOperatorWrites makes the API server refuse the operator's writes to some resources. The
// returned function and the cleanup end that.
func (e *env) denyOperatorWrites() (allow func(context.Context) error) {
	e.t.Helper()
	policies := e.guest.kube.AdmissionregistrationV1()
	allow = func(ctx context.Context) error {
		return errors.Join(
			ignoreNotFound(policies.ValidatingAdmissionPolicyBindings().
				Delete(ctx, denial, metav1.DeleteOptions{})),
			ignoreNotFound(policies.ValidatingAdmissionPolicies().
				Delete(ctx, denial, metav1.DeleteOptions{})))
	}
	e.afterwards(allow)
	type rules = []admissionv1.NamedRuleWithOperations
	rule := func(group, resource string) admissionv1.NamedRuleWithOperations {
		return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule: admissionv1.Rule{
				APIGroups: []string{group}, APIVersions: []string{"v1"},
				Resources: []string{resource},
			},
		}}
	}
	_, err := policies.ValidatingAdmissionPolicies().
		Create(e.ctx(), &admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: denial},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: ptr.To(admissionv1.Fail),
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: rules{
					rule("rbac.authorization.k8s.io", "clusterrolebindings"), rule("", "serviceaccounts"),
					rule("policy", "poddisruptionbudgets"),
					rule("storage.k8s.io", "storageclasses"),
				}},
				Validations: []admissionv1.Validation{{
					Expression: fmt.Sprintf("request.userInfo.username != %q", operatorUser), Message: "not today",
				}},
			},
		}, metav1.CreateOptions{})
	e.must(err)
	_, err = policies.ValidatingAdmissionPolicyBindings().
		Create(e.ctx(), &admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: denial},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: denial, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			},
		}, metav1.CreateOptions{})
	e.must(err)
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
