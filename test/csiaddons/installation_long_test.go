//go:build integration && long

package csiaddons

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/csi-addons/spec/lib/go/identity"
	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
)

const (
	cinderDriver    = "cinder.csi.openstack.org"
	cinderNamespace = "openshift-cluster-csi-drivers"
	manilaNamespace = "openshift-manila-csi-driver"
)

// TestInstallation follows docs/csi-addons/install.md, and runs the controller with the manifests
// and the arguments of assets/csi-addons. It uses every feature, and no permission is left over.
// The permissions for drivers are only in their namespaces.
func TestInstallation(t *testing.T) {
	t.Parallel()
	w := borrow(t)
	w.addNode("worker-1")
	for _, name := range []string{cinderNamespace, manilaNamespace} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	w.refuseOther()
	folder := w.install()
	w.awaitPod()
	deployment := &appsv1.Deployment{}
	key := types.NamespacedName{Namespace: systemNamespace, Name: controller.DeploymentName}
	w.must(w.client.Get(t.Context(), key, deployment))
	var args []string
	for _, arg := range deployment.Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(arg, "--driver-namespaces=") {
			args = append(args, arg)
		}
	}
	d := &fakeDriver{
		name: cinderDriver, services: services{nodeService, controllerService},
		reclaims: reclaims{online, offline}, onNode: answers(3, 2, nil), inController: answers(2, 1, nil),
		fences: []identity.Capability_NetworkFence_Type{
			identity.Capability_NetworkFence_GET_CLIENTS_TO_FENCE,
		},
	}
	w.addSidecar(w.addPod(cinderNamespace, "plugin", "worker-1"), d)
	stop := w.startController(append(args, "--cronjob-stagger-window=0",
		"--other-controller-namespaces="+manilaNamespace)...)
	w.awaitSidecar(cinderDriver, connected)
	w.useJobs()
	w.useSchedules()
	kept := w.useFences()
	w.useDeadPods()
	w.checkUsers()
	stop()
	w.checkPermissions()
	w.checkUnverified()
	w.checkGuides()
	w.uninstall(kept)
	w.leave(folder)
}

// refuseOther checks that `make deploy` does not replace the controller of another program.
func (w *world) refuseOther() {
	w.Helper()
	labels := map[string]string{"app.kubernetes.io/name": "csi-addons"}
	other := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: controller.DeploymentName},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{
					{Name: "manager", Image: "a", Command: []string{"/csi-addons-manager"}},
				}},
			},
		},
	}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}}, other)
	output, err := w.script("own-controller.sh")
	assert.Check(w, err != nil && strings.Contains(output, "is not that of this project"),
		"beside another controller, the script ended with %v:\n%s", err, output)
	w.must(w.client.Delete(w.Context(), other))
	w.awaitGone(other)
}

// useJobs runs a job of a volume that is attached, and of one whose driver attaches none.
func (w *world) useJobs() {
	w.Helper()
	w.addVolume("data", cinderDriver, "worker-1")
	w.addJob("attached", "data")
	w.awaitEnd("attached")
	w.create(&storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: cinderDriver},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: ptr.To(false)},
	})
	w.addJob("shared", "data")
	w.awaitEnd("shared")
}

// useSchedules adds, changes and removes the schedule of a claim, and runs a schedule that is due.
func (w *world) useSchedules() {
	w.Helper()
	due := &v1alpha1.ReclaimSpaceCronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "due"},
		Spec: v1alpha1.ReclaimSpaceCronJobSpec{
			Schedule: "* * * * *", SuccessfulJobsHistoryLimit: ptr.To(int32(0)),
		},
	}
	due.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = "data"
	w.create(due)
	claim := &corev1.PersistentVolumeClaim{}
	key := types.NamespacedName{Namespace: "default", Name: "data"}
	w.must(w.client.Get(w.Context(), key, claim))
	for _, schedule := range []string{"@weekly", "@daily", ""} {
		changed := claim.DeepCopy()
		changed.Annotations = map[string]string{v1alpha1.ReclaimSpaceScheduleAnnotation: schedule}
		w.must(w.client.Patch(w.Context(), changed, client.MergeFrom(claim)))
		claim = changed
		w.eventually(func(ctx context.Context) (bool, error) {
			found := &v1alpha1.ReclaimSpaceCronJob{}
			name := types.NamespacedName{Namespace: "default", Name: "data-reclaimspace"}
			err := w.client.Get(ctx, name, found)
			return found.Spec.Schedule == schedule, client.IgnoreNotFound(err)
		})
	}
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(due), due)
		return due.Status.LastSuccessfulTime != nil, err
	})
}

// useFences deletes a NetworkFence and classes with finalizers of another controller. It returns
// the class of a driver of that controller, which stays.
func (w *world) useFences() client.Object {
	w.Helper()
	kept := &v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "ceph", Finalizers: []string{v1alpha1.CSIAddonsNodeFinalizer},
		},
		Spec: v1alpha1.NetworkFenceClassSpec{Provisioner: "rbd.csi.ceph.com"},
	}
	w.create(kept)
	w.must(w.client.Delete(w.Context(), kept))
	class := &v1alpha1.NetworkFenceClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "class", Finalizers: []string{v1alpha1.CSIAddonsNodeFinalizer},
		},
		Spec: v1alpha1.NetworkFenceClassSpec{Provisioner: cinderDriver},
	}
	w.create(class)
	fence := &v1alpha1.NetworkFence{
		ObjectMeta: metav1.ObjectMeta{
			Name: "fence", Finalizers: []string{v1alpha1.NetworkFenceFinalizer},
		},
		Spec: v1alpha1.NetworkFenceSpec{
			NetworkFenceClassName: "class", Cidrs: []string{"10.0.0.1/32"},
			FenceState: v1alpha1.Fenced,
		},
	}
	w.create(fence)
	w.eventually(func(ctx context.Context) (bool, error) {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(fence), fence)
		return fence.Status.Result != "", err
	})
	for _, one := range []client.Object{fence, class} {
		w.must(w.client.Delete(w.Context(), one))
		w.awaitGone(one)
	}
	w.must(w.client.Get(w.Context(), client.ObjectKeyFromObject(kept), kept))
	return kept
}

// useDeadPods creates a CSIAddonsNode of a pod that does not exist, and of one whose Node does not.
func (w *world) useDeadPods() {
	w.Helper()
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: cinderNamespace, Name: "gone", UID: "1",
	}}
	stray := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: cinderNamespace, Name: "stray"},
		Spec: corev1.PodSpec{
			SchedulerName: "none", NodeName: "never",
			Containers: []corev1.Container{{Name: "a", Image: "a"}},
		},
	}
	w.create(stray)
	for _, pod := range []*corev1.Pod{gone, stray} {
		node := sidecarObject(cinderDriver, pod, "worker-1")
		node.Finalizers = []string{v1alpha1.CSIAddonsNodeFinalizer}
		w.create(node)
		w.awaitGone(node)
	}
}

// checkUsers checks that an editor of a namespace may create jobs there, and may not fence nodes.
func (w *world) checkUsers() {
	w.Helper()
	w.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "editor"},
		RoleRef:    roleRef("ClusterRole", "edit"),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "dev"}},
	})
	create := func(resource, namespace string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: "create", Group: v1alpha1.Group, Resource: resource,
		}
	}
	w.eventually(func(context.Context) (bool, error) { // Kubernetes aggregates roles
		return w.may("dev", create("reclaimspacejobs", "default")), nil
	})
	if w.may("dev", create("networkfences", "")) || w.may("dev", create("reclaimspacejobs", "other")) {
		w.Error("the editor of a namespace may fence nodes, or create jobs in another namespace")
	}
}

// unseen are permissions that this test does not use, and why the controller has them.
func unseen() map[request]string {
	return map[request]string{
		{"create", "csiaddonsnodes/calls"}:            "sidecars check it",
		{"update", "reclaimspacecronjobs/finalizers"}: "OpenShift checks it",
		{"patch", "events"}:                           "repeated events",
		{"get", "reclaimspacejobs"}:                   "a call that ends with the controller",
		{"get", "reclaimspacecronjobs"}:               "another object has the name",
		{"create", "tokenreviews"}:                    "requests for metrics",
		{"create", "subjectaccessreviews"}:            "requests for metrics",
	}
}

// checkPermissions compares the permissions of the controller with its requests.
func (w *world) checkPermissions() {
	w.Helper()
	used := w.requests()
	granted := map[request]bool{}
	for _, rules := range w.rulesOfController() {
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted[request{verb, resource}] = true
				}
			}
		}
	}
	for one := range granted {
		// A client that watches lists only if the API server does not stream lists.
		fallback := one.verb == "list" && used[request{"watch", one.resource}] > 0
		if _, known := unseen()[one]; used[one] == 0 && !known && !fallback {
			w.Errorf("the controller may %s %s, and does not need it", one.verb, one.resource)
		}
	}
	assert.Check(w, len(granted) != 0, "the controller has no permissions")
	for namespace, want := range map[string]bool{
		cinderNamespace: true, manilaNamespace: true, "default": false, "kube-system": false,
	} {
		for resource, verb := range map[string]string{
			"csiaddonsnodes": "list", "csiaddonsnodes/calls": "create",
		} {
			if got := w.mayController(verb, resource, namespace); got != want {
				w.Errorf("the controller may %s %s in namespace %s: %v, want %v", verb, resource, namespace,
					got, want)
			}
		}
	}
}

// rulesOfController returns the rules of the roles of the controller, by name.
func (w *world) rulesOfController() map[string][]rbacv1.PolicyRule {
	w.Helper()
	found := map[string][]rbacv1.PolicyRule{}
	var clusterRoles rbacv1.ClusterRoleList
	var roles rbacv1.RoleList
	w.must(w.client.List(w.Context(), &clusterRoles))
	w.must(w.client.List(w.Context(), &roles, client.InNamespace(systemNamespace)))
	for _, role := range clusterRoles.Items {
		ofUsers := slices.ContainsFunc([]string{"-reader", "-viewer", "-editor"},
			func(suffix string) bool { return strings.HasSuffix(role.Name, suffix) })
		if strings.HasPrefix(role.Name, "csi-addons-") && !ofUsers {
			found["cluster/"+role.Name] = role.Rules
		}
	}
	for _, role := range roles.Items {
		found[role.Name] = role.Rules
	}
	assert.Assert(w, len(found) >= 5, "found only the roles %v", slices.Sorted(maps.Keys(found)))
	return found
}

// mayController returns whether the controller has a permission about CSI-Addons.
func (w *world) mayController(verb, resource, namespace string) bool {
	w.Helper()
	name, sub, _ := strings.Cut(resource, "/")
	return w.may(managerUser, authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: verb, Group: v1alpha1.Group, Resource: name, Subresource: sub,
	})
}

// may returns whether a user has a permission.
func (w *world) may(user string, attributes authorizationv1.ResourceAttributes) bool {
	w.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user, Groups: []string{"system:serviceaccounts", "system:authenticated"},
		ResourceAttributes: &attributes,
	}}
	w.create(review)
	return review.Status.Allowed
}

// checkUnverified checks that a sidecar that is not verified gains nothing from the token it gets:
// it cannot create tokens, as the controller can, nor use another permission of the controller.
func (w *world) checkUnverified() {
	w.Helper()
	token := authorizationv1.ResourceAttributes{
		Namespace: systemNamespace, Verb: "create", Resource: "serviceaccounts", Subresource: "token",
		Name: managerAccount,
	}
	user := "system:serviceaccount:" + systemNamespace + ":csi-addons-unverified"
	assert.Check(w, w.may(managerUser, token) && !w.may(user, token),
		"the controller cannot create tokens, or the ServiceAccount of unverified sidecars can")
	for _, rules := range w.rulesOfController() {
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				name, sub, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					if w.may(user, authorizationv1.ResourceAttributes{
						Namespace: systemNamespace, Verb: verb, Group: rule.APIGroups[0], Resource: name,
						Subresource: sub,
					}) {
						w.Errorf("the ServiceAccount of unverified sidecars may %s %s", verb, resource)
					}
				}
			}
		}
	}
}
