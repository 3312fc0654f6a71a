package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CSIAddonsNodeState is the state of the controller's connection to a sidecar.
type CSIAddonsNodeState string

// The states of a connection.
const (
	// CSIAddonsNodeConnected means that the sidecar has answered.
	CSIAddonsNodeConnected CSIAddonsNodeState = "Connected"
	// CSIAddonsNodeFailed means that the controller does not retry until the object changes.
	CSIAddonsNodeFailed CSIAddonsNodeState = "Failed"
	// CSIAddonsNodeRetrying means that the controller retries a failed connection.
	CSIAddonsNodeRetrying CSIAddonsNodeState = "Retrying"
)

// CSIAddonsNode announces a sidecar, which serves the operations of one driver in one pod.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="csi-addons.openstack.org/revision=2"
// +kubebuilder:printcolumn:name="namespace",type=string,JSONPath=`.metadata.namespace`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="DriverName",type=string,JSONPath=`.spec.driver.name`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.driver.endpoint`
// +kubebuilder:printcolumn:name="NodeID",type=string,JSONPath=`.spec.driver.nodeID`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
type CSIAddonsNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   CSIAddonsNodeSpec   `json:"spec"`
	Status CSIAddonsNodeStatus `json:"status,omitempty"`
}

// CSIAddonsNodeSpec is what a sidecar announces.
type CSIAddonsNodeSpec struct {
	// Driver describes the driver and how the controller connects to its sidecar.
	Driver CSIAddonsNodeDriver `json:"driver"`
}

// CSIAddonsNodeDriver describes a driver in a pod.
type CSIAddonsNodeDriver struct {
	// Name is the name of the CSI driver.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="name is immutable"
	Name string `json:"name"`

	// EndPoint is the address of the sidecar, pod://<pod>.<namespace>:<port>.
	//
	// +kubebuilder:validation:MaxLength=329
	EndPoint string `json:"endpoint"`

	// NodeID is the name of the Node on which the pod runs.
	//
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="nodeID is immutable"
	NodeID string `json:"nodeID"`
}

// CSIAddonsNodeStatus is what the controller reports about the sidecar.
type CSIAddonsNodeStatus struct {
	// State is the state of the connection: Connected, Failed or Retrying.
	// +optional
	State CSIAddonsNodeState `json:"state,omitempty"`

	// Message says why the connection has this state.
	// +optional
	Message string `json:"message,omitempty"`

	// Reason is one word for Message, or the number of the current attempt.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Capabilities are the capabilities of the driver, such as service.NODE_SERVICE.
	// +optional
	Capabilities []string `json:"capabilities,omitempty"`

	// NetworkFenceClientStatus contains the clients of the node's network storage, for each
	// NetworkFenceClass of the driver.
	// +optional
	NetworkFenceClientStatus []NetworkFenceClientStatus `json:"networkFenceClientStatus,omitempty"`
}

// NetworkFenceClientStatus contains the clients that belong to a NetworkFenceClass.
type NetworkFenceClientStatus struct {
	// NetworkFenceClassName is the name of the NetworkFenceClass.
	NetworkFenceClassName string `json:"networkFenceClassName"`

	// ClientDetails are the clients.
	ClientDetails []ClientDetail `json:"ClientDetails"`
}

// ClientDetail is a client of network storage.
type ClientDetail struct {
	// ID identifies the client.
	ID string `json:"id"`

	// Cidrs are the addresses from which the client uses the storage.
	Cidrs []string `json:"cidrs"`
}

// CSIAddonsNodeList is a list of CSIAddonsNodes.
//
// +kubebuilder:object:root=true
type CSIAddonsNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CSIAddonsNode `json:"items"`
}
