package generator

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// credentialsRequest contains the fields of cloudcredential.openshift.io/v1 that layers use. It
// replaces a dependency on the library of the cloud credential operator. If a layer needs another
// field, add it here.
type credentialsRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		SecretRef struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"secretRef"`
		ServiceAccountNames []string        `json:"serviceAccountNames"`
		ProviderSpec        metav1.TypeMeta `json:"providerSpec"`
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object with a shallow copy.
func (r *credentialsRequest) DeepCopyObject() runtime.Object {
	copied := *r
	return &copied
}

func addCredentialsRequest(scheme *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "cloudcredential.openshift.io", Version: "v1"}
	scheme.AddKnownTypeWithName(version.WithKind("CredentialsRequest"), &credentialsRequest{})
	return nil
}
