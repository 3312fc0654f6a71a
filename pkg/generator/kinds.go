package generator

import (
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// newKinds returns a strict decoder of every kind that an asset may have. A driver that needs
// another kind adds it here.
func newKinds() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistrationv1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme,
		networkingv1.AddToScheme, policyv1.AddToScheme,
		rbacv1.AddToScheme, storagev1.AddToScheme, snapshotv1.AddToScheme, operatorv1.Install,
		addServiceMonitor, addCredentialsRequest, addClusterServiceVersion,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering the kinds of assets: %w", err)
		}
	}
	options := serializer.SerializerOptions{Yaml: true, Strict: true}
	meta := serializer.DefaultMetaFactory
	return serializer.NewSerializerWithOptions(meta, scheme, scheme, options), nil
}
