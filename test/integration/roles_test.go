//go:build integration

package integration

import (
	"context"
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// TestOperatorsRunUnderRolesOfOpenShift starts each operator with the Roles of
// cluster-storage-operator in place of the Roles of its manifests. The former do not contain
// `bind`, and for some kinds neither `patch` nor `list`. The test fails if the API server refuses a
// request.
func TestOperatorsRunUnderRolesOfOpenShift(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		for _, s := range subjects() {
			t.Run(s.Program+"/"+string(f), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, options{Subject: s, Flavour: f, Idle: true})
				e.useRolesOfOpenShift()
				e.startOperator()
				e.awaitAvailable()
				e.must(e.management.kube.AppsV1().Deployments(e.subject.controllerNamespace).
					Delete(e.ctx(), e.subject.Workloads[0], metav1.DeleteOptions{}))
				e.must(e.guest.kube.StorageV1().CSIDrivers().
					Delete(e.ctx(), e.subject.ClusterCSIDriver, metav1.DeleteOptions{}))
				e.eventually(prompt, func() error {
					_, missing := e.deployment()
					_, alsoMissing := e.guest.kube.StorageV1().CSIDrivers().
						Get(e.ctx(), e.subject.ClusterCSIDriver, metav1.GetOptions{})
					return errors.Join(missing, alsoMissing)
				})
				e.awaitAvailable()
			})
		}
	}
}

// useRolesOfOpenShift replaces the Roles of the operator until the test ends.
func (e *env) useRolesOfOpenShift() {
	e.t.Helper()
	environment, operator := e.running.Environments()[0], e.subject.Operator
	e.afterwards(func(ctx context.Context) error {
		e.stopOperator() // it would send requests that the other Roles do not allow
		return environment.RestoreRoles(ctx, operator)
	})
	e.must(environment.UseRolesOfOpenShift(e.ctx(), operator))
}

// TestUnusedPermissionsAreFound checks the comparison of Roles with audit logs, which runs after
// the whole suite.
func TestUnusedPermissionsAreFound(t *testing.T) {
	t.Parallel()
	requests := []request{
		{Verb: "get", Resource: "secrets", Namespace: "ns", Name: "a"},
		{Verb: "watch", Resource: "secrets", Namespace: "ns", URI: "?fieldSelector=metadata.name%3Da"},
		{Verb: "patch", Resource: "clustercsidrivers", Subresource: "status", Name: "a"},
	}
	drivers := []string{"clustercsidrivers"}
	for want, rule := range map[string]rbacv1.PolicyRule{
		"": {Resources: []string{"secrets"}, Verbs: []string{"get", "watch", "list"}},
		"watch secrets [b]": {
			Resources: []string{"secrets"}, Verbs: []string{"watch"}, ResourceNames: []string{"b"},
		},
		"delete secrets []": {
			Resources: []string{"secrets"}, Verbs: []string{"watch", "delete"},
		},
		"patch clustercsidrivers []": {Resources: drivers, Verbs: []string{"patch"}},
	} {
		if got := strings.Join(unusedIn(rule, "ns", requests[:2]), " "); got != want {
			t.Errorf("%v: got %q, want %q", rule, got, want)
		}
	}
	status := []string{"clustercsidrivers/status"}
	rule := rbacv1.PolicyRule{Resources: status, Verbs: []string{"patch"}}
	if got := unusedIn(rule, "", requests); len(got) > 0 {
		t.Errorf("a request for a subresource is not found: %q", got)
	}
}
