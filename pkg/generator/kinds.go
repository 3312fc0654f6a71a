package generator

import (
	"fmt"
	"io/fs"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	operatorv1 "github.com/openshift/api/operator/v1"
)

// newKinds returns a strict decoder of every kind that an asset may have: also those whose
// CustomResourceDefinitions are among the assets. A driver that needs another kind adds it here.
func newKinds(fsys fs.FS) (runtime.Decoder, error) {
	scheme, types := runtime.NewScheme(), runtime.SchemeBuilder{
		admissionregistrationv1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme,
		networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, storagev1.AddToScheme,
		snapshotv1.AddToScheme, operatorv1.Install,
	}
	if err := types.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("registering the kinds of assets: %w", err)
	}
	for _, kind := range []schema.GroupVersionKind{ // without a type, so their fields are not checked
		{Group: "cloudcredential.openshift.io", Version: "v1", Kind: "CredentialsRequest"},
		{Group: "monitoring.coreos.com", Version: "v1", Kind: "ServiceMonitor"},
		{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"},
	} {
		scheme.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
	}
	err := eachFile(fsys, "crds/generated/*", func(_ string, text []byte) error {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return err
		}
		for _, version := range crd.Spec.Versions {
			scheme.AddKnownTypeWithName(schema.GroupVersionKind{
				Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind,
			}, &unstructured.Unstructured{})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("registering the kinds of CustomResourceDefinitions: %w", err)
	}
	options := serializer.SerializerOptions{Yaml: true, Strict: true}
	meta := serializer.DefaultMetaFactory
	return serializer.NewSerializerWithOptions(meta, scheme, scheme, options), nil
}
