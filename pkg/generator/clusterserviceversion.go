package generator

import (
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// clusterServiceVersion contains the fields of operators.coreos.com/v1alpha1 that layers use. It
// replaces a dependency on the library of OLM. If a layer needs another field, add it here.
type clusterServiceVersion struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		DisplayName    string                    `json:"displayName"`
		Description    string                    `json:"description"`
		Version        string                    `json:"version"`
		Maturity       string                    `json:"maturity"`
		MinKubeVersion string                    `json:"minKubeVersion"`
		Keywords       []string                  `json:"keywords"`
		Provider       olmLink                   `json:"provider"`
		Links          []olmLink                 `json:"links"`
		NativeAPIs     []metav1.GroupVersionKind `json:"nativeAPIs"`
		InstallModes   []struct {
			Type      string `json:"type"`
			Supported bool   `json:"supported"`
		} `json:"installModes"`
		Install struct {
			Strategy string `json:"strategy"`
			Spec     struct {
				Deployments []struct {
					Name string                `json:"name"`
					Spec appsv1.DeploymentSpec `json:"spec"`
				} `json:"deployments"`
				Permissions        []olmPermissions `json:"permissions"`
				ClusterPermissions []olmPermissions `json:"clusterPermissions"`
			} `json:"spec"`
		} `json:"install"`
		RelatedImages []struct {
			Name  string `json:"name"`
			Image string `json:"image"`
		} `json:"relatedImages"`
	} `json:"spec"`
}

type olmLink struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

type olmPermissions struct {
	ServiceAccountName string              `json:"serviceAccountName"`
	Rules              []rbacv1.PolicyRule `json:"rules"`
}

// DeepCopyObject implements runtime.Object with a shallow copy.
func (v *clusterServiceVersion) DeepCopyObject() runtime.Object {
	copied := *v
	return &copied
}

func addClusterServiceVersion(scheme *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "operators.coreos.com", Version: "v1alpha1"}
	scheme.AddKnownTypeWithName(version.WithKind("ClusterServiceVersion"), &clusterServiceVersion{})
	return nil
}
