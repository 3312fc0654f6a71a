package controller

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// NewScheme returns a scheme with the kinds of Kubernetes and of CSI-Addons.
func NewScheme() (*runtime.Scheme, error) {
	known := runtime.NewScheme()
	if err := scheme.AddToScheme(known); err != nil {
		return nil, fmt.Errorf("adding the kinds of Kubernetes: %w", err)
	}
	if err := v1alpha1.AddToScheme(known); err != nil {
		return nil, fmt.Errorf("adding the kinds of CSI-Addons: %w", err)
	}
	return known, nil
}
