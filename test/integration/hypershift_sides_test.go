//go:build integration

package integration

import (
	"net/http"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// hostedRights are those that cluster-storage-operator grants in the control plane's namespace, and nowhere else in the management
// cluster (contract.md 3.4): verbs by resource.
func hostedPermissions(s subject) map[string][]string {
	read := []string{"get", "list", "watch"}
	full := append([]string{"create", "update", "patch", "delete"}, read...)
	rights := map[string][]string{"hostedcontrolplanes": read}
	for _, resource := range []string{
		"pods", "services", "endpoints", "events", "configmaps", "secrets", "serviceaccounts", "deployments", "poddisruptionbudgets", "leases",
	} {
		rights[resource] = full
	}
	if s.name == operatorName {
		rights["replicasets"] = []string{"get"}
	}
	return rights
}

// TestHyperShiftSidesAreApart: neither cluster accepts the credentials of the other, and the operator asks each for what it has, and
// is never refused (fault 112): while it starts, when things change on either side, and when it starts again.
func TestHyperShiftSidesAreApart(t *testing.T) {
	t.Parallel()
	eachHosted(t, options{}, func(t *testing.T, e *hostedEnv) {
		management, err := clientcmd.BuildConfigFromFlags("", e.kubeconfig(e.subject.name))
		e.must(err)
		guest, err := clientcmd.BuildConfigFromFlags("", e.guestKubeconfig())
		e.must(err)
		e.mustBeRefused(&rest.Config{
			Host: guest.Host, BearerToken: management.BearerToken, BearerTokenFile: management.BearerTokenFile,
			TLSClientConfig: rest.TLSClientConfig{CAData: guest.CAData},
		})
		e.mustBeRefused(&rest.Config{Host: management.Host, TLSClientConfig: rest.TLSClientConfig{
			CAData: management.CAData, CertData: guest.CertData, KeyData: guest.KeyData,
		}})

		e.awaitAvailable()
		e.patchControlPlane(`{"labels":{"team":"storage"},"controllerAvailabilityPolicy":"HighlyAvailable"}`)
		e.patchBesideController(secrets(), e.subject.credentials[0][1], `{"stringData":{"another":"key"}}`)
		for _, object := range objectsOf(e.subject).guest {
			e.deleteIfRecreated(object)
		}
		e.awaitNoWrites()
		e.restartOperator()
		e.awaitAvailable()
		e.awaitNoWrites()
		all := e.requests(e.began)
		if len(all) < 200 {
			t.Errorf("there are only %d requests of the operator in the audit logs", len(all))
		}
		rights := hostedPermissions(e.subject)
		foreign := map[string]string{manila().name: cinderCredentials, cinder().name: credentialsSecret}[e.subject.name]
		for _, r := range all {
			switch {
			case r.Code == http.StatusForbidden || r.Code == http.StatusUnauthorized:
				t.Errorf("the operator was refused: %s", r)
			case r.Cluster == e.management && (r.Namespace != hostedNamespace || !slices.Contains(rights[r.Resource], r.Verb)):
				t.Errorf("the operator has no right to this: %s", r)
			case r.Cluster == e.guest && (r.Namespace == hostedNamespace || slices.Contains(managementResources(), r.Resource)):
				t.Errorf("the operator looks for this on the wrong side: %s", r)
			case r.Resource == "secrets" && r.Name == foreign:
				t.Errorf("the operator reads the credentials of another driver (fault 160): %s", r)
			}
		}
	})
}

// ofManagement are resources that the guest has none of which the operator knows.
func managementResources() []string {
	return []string{"deployments", "poddisruptionbudgets", "leases", "hostedcontrolplanes", "services", "replicasets"}
}

// mustBeRefused checks that the API server does not know who that is.
func (e *env) mustBeRefused(config *rest.Config) {
	e.t.Helper()
	config.UserAgent = "integration-test"
	client, err := kubernetes.NewForConfig(config)
	e.must(err)
	for _, namespace := range []string{hostedNamespace, operatorNamespace} {
		if _, err := client.CoreV1().Secrets(namespace).List(e.ctx(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			e.t.Errorf("%s answers %v to the credentials of the other cluster, want that it does not know them", config.Host, err)
		}
	}
}

// mustSpoil deletes the object if it is one that is made again without any harm.
func (e *env) deleteIfRecreated(object string) {
	e.t.Helper()
	kinds := map[string]string{"clusterrolebindings ": "rbac.authorization.k8s.io", "storageclasses ": "storage.k8s.io", "csidrivers ": "storage.k8s.io"}
	for prefix, group := range kinds {
		if name, ok := cutName(object, prefix); ok {
			e.must(e.guest.dynamic.Resource(resource(group, prefix[:len(prefix)-1])).Delete(e.ctx(), name, metav1.DeleteOptions{}))
		}
	}
}

func cutName(object, prefix string) (string, bool) {
	if len(object) > len(prefix) && object[:len(prefix)] == prefix {
		return object[len(prefix)+1:], true // a slash, with no namespace before it
	}
	return "", false
}

// TestHyperShiftMetrics: the guest says who may read the operator's metrics; the management cluster, where the operator may not ask,
// is not asked, and its accounts are nobody here.
func TestHyperShiftMetrics(t *testing.T) {
	t.Parallel()
	e := newHosted(t, manila(), options{})
	token, err := e.management.kube.CoreV1().ServiceAccounts(hostedNamespace).
		CreateToken(e.ctx(), operatorName, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	e.must(err)
	e.mustServeEndpoints(httpCheck{"/metrics", token.Status.Token, http.StatusUnauthorized})
	asked := e.requests(e.began, func(r request) bool {
		return slices.Contains([]string{"tokenreviews", "subjectaccessreviews"}, r.Resource)
	})
	if len(asked) == 0 {
		t.Error("nobody was asked whose tokens these are")
	}
	for _, r := range asked {
		if r.Cluster != e.guest {
			t.Errorf("the wrong cluster was asked: %s", r)
		}
	}
}
