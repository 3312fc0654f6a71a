package driver_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
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

// Kubernetes stages a volume of its former driver where it stages one of the CSI driver.
func TestVolumesOfTheFormerDriverBelongToCinder(t *testing.T) {
	t.Parallel()
	former := claimed()
	former.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "1", FSType: "xfs"},
	}
	const name = "cinder.csi.openstack.org"
	got, err := driver.Reader{Kube: kubefake.NewClientset(former), Driver: name}.
		Volume(t.Context(), "data")
	assert.NilError(t, err)
	const path = "/s/" + name +
		"/6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b/globalmount"
	if staged, fs := got.StagingPath("/s"), got.Capability().GetMount().GetFsType(); got.ID() != "1" ||
		staged != path || fs != "xfs" {
		t.Errorf("volume %s with %s is staged at %s", got.ID(), fs, staged)
	}
}
