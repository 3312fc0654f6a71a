package controller

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// newScheme returns a scheme with the kinds that the controller reads and writes.
func newScheme() (*runtime.Scheme, error) {
	known := runtime.NewScheme()
	return known, errors.Join(appsv1.AddToScheme(known), coordinationv1.AddToScheme(known),
		corev1.AddToScheme(known), storagev1.AddToScheme(known), v1alpha1.AddToScheme(known))
}
