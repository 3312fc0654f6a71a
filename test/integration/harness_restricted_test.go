//go:build integration

package integration

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// restrictedNamespace admits only pods of the Pod Security level "restricted".
const restrictedNamespace = "restricted"

// mustBeRestricted fails the test if the API server refuses a pod of the Deployment in a namespace
// that enforces the level "restricted". The devcluster has no SCCs that could change the pod.
func (e *env) mustBeRestricted() {
	e.t.Helper()
	deployment, err := e.deployment()
	e.must(err)
	spec := deployment.Spec.Template.Spec.DeepCopy()
	spec.PriorityClassName = "" // HyperShift creates some classes, which do not exist here
	core := e.management.kube.CoreV1()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   restrictedNamespace,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	_, err = core.Namespaces().Create(e.ctx(), namespace, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		e.must(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: spec.ServiceAccountName}}
	_, err = core.ServiceAccounts(restrictedNamespace).Create(e.ctx(), account, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		e.must(err)
	}
	pods := core.Pods(restrictedNamespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: deployment.Name}, Spec: *spec}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := pods.Create(e.ctx(), pod, dryRun); err != nil {
		e.t.Errorf("level restricted does not admit a pod of %s: %v", deployment.Name, err)
	}
	pod.Spec.SecurityContext = nil
	if _, err := pods.Create(e.ctx(), pod, dryRun); !apierrors.IsForbidden(err) {
		e.t.Errorf("the level is not enforced: a pod without security context is admitted (%v)", err)
	}
}
