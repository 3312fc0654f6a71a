package driver_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
)

const hidden = "openstack-cloud"

// claimed returns a PersistentVolume whose Secret is csi/openstack-cloud.
func claimed() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "a", VolumeHandle: "1",
				NodeStageSecretRef: &corev1.SecretReference{Namespace: "csi", Name: hidden},
			},
		}},
	}
}

// Users read errors in objects, but may not see the names of Secrets in other namespaces.
func TestErrorsDoNotNameSecrets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		code codes.Code
		want string
	}{
		"missing": {
			apierrors.NewNotFound(corev1.Resource("secrets"), hidden), codes.NotFound, "not found",
		},
		"forbidden": {
			apierrors.NewForbidden(corev1.Resource("secrets"), hidden, errors.New("RBAC: "+hidden)),
			codes.FailedPrecondition, "forbidden",
		},
		"no answer": {
			errors.New("Get https://10.0.0.1/api/v1/namespaces/csi/secrets/" + hidden + ": timeout"),
			codes.Unavailable, "the API server did not answer",
		},
	} {
		kube := kubefake.NewClientset(claimed())
		kube.PrependReactor("get", "secrets",
			func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
		_, err := driver.Reader{Kube: kube, Driver: "a"}.Volume(t.Context(), "data")
		if status.Code(err) != test.code || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), hidden) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
