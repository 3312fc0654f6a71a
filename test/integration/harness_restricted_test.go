//go:build integration

package integration

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// restrictedNamespace admits only pods of the Pod Security level "restricted".
const restrictedNamespace = "restricted"

// mustBeRestricted fails the test if the API server refuses a pod of the Deployment, all hooks applied, in a namespace that enforces the
// level "restricted". No SCC is there to add anything.
func (e *env) mustBeRestricted() {
	e.t.Helper()
	deployment, err := e.deployment()
	e.must(err)
	kube, spec := e.management.kube, deployment.Spec.Template.Spec.DeepCopy()
	spec.PriorityClassName = "" // some are made by HyperShift
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: restrictedNamespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if _, err := kube.CoreV1().Namespaces().Create(e.ctx(), namespace, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		e.must(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: spec.ServiceAccountName}}
	if _, err := kube.CoreV1().ServiceAccounts(restrictedNamespace).Create(e.ctx(), account, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		e.must(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: deployment.Name}, Spec: *spec}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	if _, err := kube.CoreV1().Pods(restrictedNamespace).Create(e.ctx(), pod, dryRun); err != nil {
		e.t.Errorf("a pod of %s is refused where the level restricted is enforced: %v", deployment.Name, err)
	}
	pod.Spec.SecurityContext = nil
	if _, err := kube.CoreV1().Pods(restrictedNamespace).Create(e.ctx(), pod, dryRun); !apierrors.IsForbidden(err) {
		e.t.Errorf("a pod without a security context is not refused (%v): nothing is enforced", err)
	}
}
