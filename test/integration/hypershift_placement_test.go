//go:build integration

package integration

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// objectsBySide contains the objects of a driver in both clusters: resource, namespace and name.
type objectsBySide struct {
	management, guest []string
}

func objectsOf(s subject) objectsBySide {
	return ofSubject(s, manilaObjects(), cinderObjectsBySide())
}

func manilaObjects() objectsBySide {
	const node = operandNamespace + "/"
	return objectsBySide{
		management: []string{
			"configmaps " + hostedNamespace + "/" + trustedCABundle,
			"deployments " + hostedNamespace + "/" + controllerName,
			"poddisruptionbudgets " + hostedNamespace + "/" + disruptionBudget,
			"secrets " + hostedNamespace + "/manila-csi-driver-operator-hash-key",
			"serviceaccounts " + hostedNamespace + "/" + controllerAccount,
		},
		guest: []string{
			"clusterrolebindings /openstack-manila-csi-main-provisioner-binding",
			"clusterrolebindings /openstack-manila-csi-resizer-binding",
			"clusterrolebindings /openstack-manila-csi-snapshotter-binding",
			"clusterrolebindings /openstack-manila-csi-storageclass-reader-resizer-binding",
			"clusterrolebindings /openstack-manila-csi-volumesnapshot-reader-provisioner-binding",
			"clusterrolebindings /" + privilegedNodeBinding,
			"clusterroles /openstack-manila-csi-resizer-role",
			"clusterroles /openstack-manila-csi-snapshotter-role",
			"clusterroles /openstack-manila-privileged-role",
			"configmaps " + node + trustedCABundle,
			"csidrivers /" + driverName,
			"daemonsets " + node + nfsNodeName,
			"daemonsets " + node + nodeName,
			"rolebindings " + node + "manila-csi-driver-lease-leader-election",
			"rolebindings " + node + "manila-csi-driver-prometheus",
			"rolebindings " + node + "manila-csi-driver-secret-reader",
			"roles " + node + "manila-csi-driver-lease-leader-election",
			"roles " + node + "manila-csi-driver-prometheus",
			"roles " + node + "manila-csi-driver-secret-reader",
			"secrets " + node + loginSecret,
			"serviceaccounts " + node + nodeAccount,
			"storageclasses /csi-manila-default",
			"volumesnapshotclasses /csi-manila-standard",
		},
	}
}

func cinderObjectsBySide() objectsBySide {
	const node = operatorNamespace + "/"
	return objectsBySide{
		management: []string{
			"configmaps " + hostedNamespace + "/" + cloudConf,
			"configmaps " + hostedNamespace + "/" + cinderTrustedCA,
			"deployments " + hostedNamespace + "/" + cinderController,
			"poddisruptionbudgets " + hostedNamespace + "/" + cinderController + "-pdb",
			"secrets " + hostedNamespace + "/" + cinderLogin,
			"secrets " + hostedNamespace + "/openstack-cinder-csi-driver-operator-hash-key",
			"serviceaccounts " + hostedNamespace + "/" + cinderController + "-sa",
		},
		guest: []string{
			"clusterrolebindings /openstack-cinder-csi-main-attacher-binding",
			"clusterrolebindings /openstack-cinder-csi-main-provisioner-binding",
			"clusterrolebindings /openstack-cinder-csi-main-resizer-binding",
			"clusterrolebindings /openstack-cinder-csi-snapshotter-binding",
			"clusterrolebindings /openstack-cinder-csi-storageclass-reader-resizer-binding",
			"clusterrolebindings /openstack-cinder-csi-volumesnapshot-reader-provisioner-binding",
			"clusterrolebindings /openstack-cinder-node-privileged-binding",
			"clusterroles /openstack-cinder-csi-snapshotter-role",
			"clusterroles /openstack-cinder-privileged-role",
			"configmaps " + node + cloudConf,
			"configmaps " + node + cinderTrustedCA,
			"csidrivers /" + cinder().ClusterCSIDriver,
			"daemonsets " + node + cinderNode,
			"rolebindings " + node + "openstack-cinder-csi-driver-lease-leader-election",
			"rolebindings " + node + "openstack-cinder-csi-driver-prometheus",
			"roles " + node + "openstack-cinder-csi-driver-lease-leader-election",
			"roles " + node + "openstack-cinder-csi-driver-prometheus",
			"serviceaccounts " + node + cinderNode + "-sa",
			"storageclasses /" + standardClass,
			"volumesnapshotclasses /" + standardClass,
		},
	}
}

// createdOn returns the objects that the operator has created in a cluster, without Leases and
// events.
func (e *env) createdOn(s *cluster) []string {
	e.t.Helper()
	var created []string
	creations := []func(request) bool{
		onCluster(s), request.isWrite, successful, ofVerb("create"), notOfResource("events"),
	}
	for _, r := range e.requests(e.began, creations...) {
		created = append(created, r.Resource+" "+r.Namespace+"/"+r.Name)
	}
	slices.Sort(created)
	return created
}

// TestHyperShiftUsesBothClusters checks a new driver, and then changes to its objects.
func TestHyperShiftUsesBothClusters(t *testing.T) {
	t.Parallel()
	eachHosted(t, options{Subject: manila()}, func(_ *testing.T, e *hostedEnv) {
		e.parts(
			part{"PutsObjectsOnTheirSide", e.putsObjectsOnTheirSide},
			part{"EmitsEventsInGuestCluster", e.emitsEventsInGuestCluster},
			part{"GuestAuthorizesMetrics", e.guestAuthorizesMetrics},
			part{"Settles", e.mustSettle},
			part{"UsesRightClusterAndRBAC", e.usesRightClusterAndRBAC},
		)
	})
}

// putsObjectsOnTheirSide checks all objects of both clusters, and that the operator writes to no
// others. Prometheus' Role is in the guest cluster.
func (e *hostedEnv) putsObjectsOnTheirSide() {
	e.awaitAvailable()
	e.awaitNoWrites()
	want := objectsOf(e.subject)
	for s, objects := range map[*cluster][]string{
		e.management: want.management,
		e.guest:      want.guest,
	} {
		if diff := cmp.Diff(objects, e.createdOn(s)); diff != "" {
			e.t.Errorf("objects in the %s cluster differ (-want +got):\n%s", s.name, diff)
		}
		others := notOfResource("events", "clustercsidrivers")
		for _, r := range e.requests(e.began, onCluster(s), request.isWrite, others) {
			if object := r.Resource + " " + r.Namespace + "/" + r.Name; !slices.Contains(objects, object) {
				e.t.Errorf("the operator wrote to an object of others: %s", r)
			}
		}
	}
	e.mustPullImages()
	e.mustSelectController()
	e.expectNone("the operator read other namespaces of the management cluster",
		e.requests(e.began, onCluster(e.management), func(r request) bool {
			return r.Namespace != hostedNamespace
		}))
}

// mustPullImages checks that the controllers' ServiceAccount has the pull secret of the release
// images.
func (e *env) mustPullImages() {
	e.t.Helper()
	d, err := e.deployment()
	e.must(err)
	account, err := e.management.kube.CoreV1().ServiceAccounts(hostedNamespace).
		Get(e.ctx(), d.Spec.Template.Spec.ServiceAccountName, metav1.GetOptions{})
	e.must(err)
	want := []corev1.LocalObjectReference{{Name: "pull-secret"}}
	if diff := cmp.Diff(want, account.ImagePullSecrets); diff != "" {
		e.t.Errorf("imagePullSecrets of %s differ (-want +got):\n%s", account.Name, diff)
	}
}

// mustSelectController checks that the PodDisruptionBudget selects the pods of the Deployment.
func (e *env) mustSelectController() {
	e.t.Helper()
	d, err := e.deployment()
	e.must(err)
	budgets, err := e.management.addedObjects(e.ctx(), resource("policy", "poddisruptionbudgets"))
	e.must(err)
	if len(budgets) != 1 {
		e.t.Fatalf("there are %d PodDisruptionBudgets, want one", len(budgets))
	}
	got, _, err := unstructured.NestedStringMap(budgets[0].Object, "spec", "selector", "matchLabels")
	e.must(err)
	if diff := cmp.Diff(d.Spec.Selector.MatchLabels, got); diff != "" {
		e.t.Errorf("PodDisruptionBudget %s does not select the Deployment's pods (-want +got):\n%s",
			budgets[0].GetName(), diff)
	}
}

// emitsEventsInGuestCluster checks that only events about leader election are in the management
// cluster.
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
			if r.Namespace != s.namespace || lease != (s == e.management) {
				e.t.Errorf("unexpected event: %s", r)
			}
		}
	}
}
