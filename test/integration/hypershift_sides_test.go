//go:build integration

package integration

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestHyperShiftUsesBothClusters checks a new driver, and then changes to its objects.
func TestHyperShiftUsesBothClusters(t *testing.T) {
	t.Parallel()
	eachHosted(t, options{Subject: manila()}, func(_ *testing.T, e *hostedEnv) {
		e.parts(
			part{"EmitsEventsInGuestCluster", e.emitsEventsInGuestCluster},
			part{"GuestAuthorizesMetrics", e.guestAuthorizesMetrics},
			part{"Settles", e.mustSettle},
			part{"UsesRightClusterAndRBAC", e.usesRightClusterAndRBAC},
		)
	})
}

// emitsEventsInGuestCluster checks that the management cluster has only those of leader election.
func (e *hostedEnv) emitsEventsInGuestCluster() {
	e.awaitAvailable()
	e.awaitNoWrites()
	e.must(e.hasEvent("DeploymentCreated"))
	for _, s := range e.clusters() {
		written := e.requests(e.began, onCluster(s), ofResource("events"), request.isWrite)
		if len(written) == 0 {
			e.t.Errorf("there are no events in the %s cluster", s.name)
		}
		for _, r := range written {
			lease := strings.HasPrefix(r.Name, e.subject.Component+"-lock.")
			assert.Check(e.t, r.Namespace == s.namespace && lease == (s == e.management),
				"unexpected event: %s", r)
		}
	}
}

// usesRightClusterAndRBAC checks that no request of the operator is refused or sent to the wrong
// cluster: while it starts, when objects change, and after a restart.
func (e *hostedEnv) usesRightClusterAndRBAC() {
	e.awaitAvailable()
	e.patchControlPlane(`{"labels":{"team":"storage"},` +
		`"controllerAvailabilityPolicy":"HighlyAvailable"}`)
	e.patchBesideController(secrets(), e.subject.Credentials[0].Name,
		`{"stringData":{"another":"key"}}`)
	recreated := map[string]string{ // without consequences
		"clusterrolebindings": "rbac.authorization.k8s.io",
		"storageclasses":      "storage.k8s.io", "csidrivers": "storage.k8s.io",
	}
	for _, r := range e.requests(e.began, onCluster(e.guest), ofVerb("create"), successful) {
		if group, found := recreated[r.Resource]; found {
			e.delete(resource(group, r.Resource), "", r.Name)
		}
	}
	e.awaitNoWrites()
	e.restartOperator()
	e.awaitAvailable()
	e.awaitNoWrites()
	all := e.requests(e.began)
	assert.Check(e.t, len(all) >= 200,
		"there are only %d requests of the operator in the audit logs", len(all))
	foreign := ofSubject(e.subject, cinderCredentials, credentialsSecret)
	for _, r := range all {
		switch {
		case r.Code == http.StatusForbidden || r.Code == http.StatusUnauthorized:
			e.t.Errorf("the API server refused a request: %s", r)
		case r.Cluster == e.management && r.Namespace != hostedNamespace:
			e.t.Errorf("the request is about another namespace of the management cluster: %s", r)
		case r.Cluster == e.guest &&
			(r.Namespace == hostedNamespace || slices.Contains(managementResources(), r.Resource)):
			e.t.Errorf("the operator sent this request to the wrong cluster: %s", r)
		case r.Resource == "secrets" && r.Name == foreign:
			e.t.Errorf("the operator reads the credentials of another driver: %s", r)
		}
	}
}

// managementResources returns resources of the management cluster that the operator must not look
// for in the guest cluster.
func managementResources() []string {
	return []string{
		"deployments", "poddisruptionbudgets", "leases", "hostedcontrolplanes", "services",
		"replicasets",
	}
}

// guestAuthorizesMetrics checks that the operator sends reviews to the guest cluster, and does not
// accept tokens of the management cluster.
func (e *hostedEnv) guestAuthorizesMetrics() {
	token, err := e.management.kube.CoreV1().ServiceAccounts(hostedNamespace).
		CreateToken(e.ctx(), e.subject.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	e.must(err)
	e.mustServeEndpoints(httpCheck{"/metrics", token.Status.Token, http.StatusUnauthorized})
	reviews := e.requests(e.began, func(r request) bool {
		return slices.Contains([]string{"tokenreviews", "subjectaccessreviews"}, r.Resource)
	})
	assert.Check(e.t, len(reviews) != 0, "the operator sent no reviews")
	for _, r := range reviews {
		assert.Check(e.t, r.Cluster == e.guest, "the operator sent a review to the wrong cluster: %s", r)
	}
}
