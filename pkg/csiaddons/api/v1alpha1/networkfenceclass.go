package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NetworkFenceClass contains what the NetworkFences of a driver have in common.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="csi-addons.openstack.org/revision=1"
// +kubebuilder:printcolumn:name="Provisioner",type=string,JSONPath=`.spec.provisioner`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NetworkFenceClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkFenceClassSpec   `json:"spec,omitempty"`
	Status NetworkFenceClassStatus `json:"status,omitempty"`
}

// NetworkFenceClassSpec names a driver and its parameters.
//
// +kubebuilder:validation:XValidation:rule="has(self.parameters) == has(oldSelf.parameters)",message="parameters are immutable"
type NetworkFenceClassSpec struct {
	// Provisioner is the name of the CSI driver.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="provisioner is immutable"
	Provisioner string `json:"provisioner"`

	// Parameters are passed to the driver, except those that name its Secret:
	// csiaddons.openshift.io/networkfence-secret-name and
	// csiaddons.openshift.io/networkfence-secret-namespace.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="parameters are immutable"
	Parameters map[string]string `json:"parameters,omitempty"`
}

// NetworkFenceClassStatus is empty.
type NetworkFenceClassStatus struct{}

// NetworkFenceClassList is a list of NetworkFenceClasses.
//
// +kubebuilder:object:root=true
type NetworkFenceClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NetworkFenceClass `json:"items"`
}
