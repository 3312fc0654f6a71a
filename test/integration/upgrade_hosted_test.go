//go:build integration

package integration

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostedMetrics returns the names of the objects with which earlier operators exposed the metrics
// of the sidecars in a hosted control plane.
func (u *upgrade) hostedMetrics() []string {
	return ofSubject(u.subject, []string{
		metricsService, "openstack-manila-kube-rbac-proxy-role",
		"openstack-manila-kube-rbac-proxy-binding",
	}, []string{
		cinderController + "-metrics", "openstack-cinder-kube-rbac-proxy-role",
		"openstack-cinder-kube-rbac-proxy-binding",
	})
}

// issueCertificate creates the Secret of the metrics Service, as the service CA of OpenShift does.
func (u *upgrade) issueCertificate() {
	u.t.Helper()
	core := u.management.kube.CoreV1()
	service, err := core.Services(hostedNamespace).
		Get(u.ctx(), u.hostedMetrics()[0], metav1.GetOptions{})
	u.must(err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: service.Name + "-serving-cert",
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID},
		},
	}}
	_, err = core.Secrets(hostedNamespace).Create(u.ctx(), secret, metav1.CreateOptions{})
	u.must(err)
}

// hasNoCertificate returns nil if the Secret of the metrics Service does not exist.
func (u *upgrade) hasNoCertificate() error {
	_, err := u.management.kube.CoreV1().Secrets(hostedNamespace).
		Get(u.ctx(), u.hostedMetrics()[0]+"-serving-cert", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(err, errors.New("the certificate of the metrics Service is still there"))
}
