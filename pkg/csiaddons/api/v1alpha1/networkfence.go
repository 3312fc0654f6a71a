package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// FenceState is the state in which a NetworkFence keeps its clients.
//
// +kubebuilder:validation:Enum=Fenced;Unfenced
type FenceState string

// The states of clients.
const (
	// Fenced means that the clients have no access to the storage.
	Fenced FenceState = "Fenced"
	// Unfenced means that the clients have the access that they had before the fence.
	Unfenced FenceState = "Unfenced"
)

// Succeeded returns the message of a NetworkFence that has succeeded. Other programs compare it, so
// it never changes.
func (s FenceState) Succeeded() string {
	if s == Unfenced {
		return "unfencing operation successful"
	}
	return "fencing operation successful"
}

// NetworkFence revokes the access of clients to storage, and restores it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="csi-addons.openstack.org/revision=2"
// +kubebuilder:printcolumn:name="Driver",type=string,JSONPath=`.spec.driver`
// +kubebuilder:printcolumn:name="Cidrs",type=string,JSONPath=`.spec.cidrs`
// +kubebuilder:printcolumn:name="FenceState",type=string,JSONPath=`.spec.fenceState`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=`.status.result`
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.networkFenceClassName`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Fenced")].message`
type NetworkFence struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NetworkFenceSpec   `json:"spec"`
	Status NetworkFenceStatus `json:"status,omitempty"`
}

// NetworkFenceSpec says which clients to fence.
//
// +kubebuilder:validation:XValidation:rule="has(self.driver) || has(self.networkFenceClassName)",message="one of driver or networkFenceClassName must be present"
// +kubebuilder:validation:XValidation:rule="has(self.networkFenceClassName) || has(self.secret)",message="secret must be present when networkFenceClassName is not specified"
type NetworkFenceSpec struct {
	// NetworkFenceClassName is the name of a NetworkFenceClass, which names the driver, its Secret and
	// its parameters.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="networkFenceClassName is immutable"
	NetworkFenceClassName string `json:"networkFenceClassName,omitempty"`

	// Driver is the name of the CSI driver. Deprecated: use networkFenceClassName.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="driver is immutable"
	Driver string `json:"driver,omitempty"`

	// FenceState says whether the clients are fenced.
	//
	// +kubebuilder:default=Fenced
	FenceState FenceState `json:"fenceState"`

	// Cidrs are the addresses of the clients.
	Cidrs []string `json:"cidrs"`

	// Secret is the Secret of the driver. Deprecated: use networkFenceClassName.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="secret is immutable"
	Secret *SecretSpec `json:"secret,omitempty"`

	// Parameters are passed to the driver. Deprecated: use networkFenceClassName.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="parameters are immutable"
	Parameters map[string]string `json:"parameters,omitempty"`
}

// SecretSpec names a Secret.
type SecretSpec struct {
	// Name is the name of the Secret.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="name is immutable"
	Name string `json:"name,omitempty"`

	// Namespace is the namespace of the Secret.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="namespace is immutable"
	Namespace string `json:"namespace,omitempty"`
}

// NetworkFenceStatus is the result of a NetworkFence.
type NetworkFenceStatus struct {
	// Result is Succeeded or Failed. It is empty until the first attempt for the current spec ends.
	// +optional
	Result OperationResult `json:"result,omitempty"`

	// Message is "fencing operation successful" or "unfencing operation successful" if Result is
	// Succeeded. Otherwise it is the message of the condition Fenced.
	// +optional
	Message string `json:"message,omitempty"`

	// Reason is one word for Message. The words do not change.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Conditions describe the fence. The message of the condition Fenced contains all details.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NetworkFenceList is a list of NetworkFences.
//
// +kubebuilder:object:root=true
type NetworkFenceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NetworkFence `json:"items"`
}
