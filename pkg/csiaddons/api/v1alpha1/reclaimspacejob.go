package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OperationResult is the result of an operation. It is empty until the operation ends.
type OperationResult string

// The results of an operation.
const (
	OperationSucceeded OperationResult = "Succeeded"
	OperationFailed    OperationResult = "Failed"
)

// ReclaimSpaceSucceeded is the start of the message of a job that has succeeded. Other programs
// compare it, so it never changes.
const ReclaimSpaceSucceeded = "Reclaim Space operation successfully completed."

// ReclaimSpaceStep is what a ReclaimSpaceJob does or waits for.
type ReclaimSpaceStep string

// The steps of a ReclaimSpaceJob, in their order.
const (
	// ReclaimSpaceWaiting means that the job waits for other jobs, a sidecar or the next attempt.
	ReclaimSpaceWaiting ReclaimSpaceStep = "Waiting"
	// ReclaimSpaceOnNode means that the driver reclaims space on a node with the volume.
	ReclaimSpaceOnNode ReclaimSpaceStep = "Node"
	// ReclaimSpaceInController means that the driver reclaims space in its controller service.
	ReclaimSpaceInController ReclaimSpaceStep = "Controller"
)

// ReclaimSpaceJob reclaims the unused space of a volume once.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="csi-addons.openstack.org/revision=4"
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.metadata.namespace`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Retries",type=integer,JSONPath=`.status.retries`
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=`.status.result`
// +kubebuilder:printcolumn:name="ReclaimedSpace",type=string,JSONPath=`.status.reclaimedSpace`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.target.persistentVolumeClaim`
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Node",type=string,priority=1,JSONPath=`.status.node`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
type ReclaimSpaceJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ReclaimSpaceJobSpec   `json:"spec"`
	Status ReclaimSpaceJobStatus `json:"status,omitempty"`
}

// ReclaimSpaceJobSpec says which volume to process, and how often to try.
type ReclaimSpaceJobSpec struct {
	// Target is the volume.
	Target TargetSpec `json:"target"`

	// BackOffLimit is the number of retries after which the job fails.
	//
	// +optional
	// +kubebuilder:default=6
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=60
	BackOffLimit *int32 `json:"backOffLimit,omitempty"`

	// RetryDeadlineSeconds is the time in seconds, after the start of the job, in which failed calls
	// are repeated.
	//
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1800
	RetryDeadlineSeconds *int64 `json:"retryDeadlineSeconds,omitempty"`

	// Timeout is the maximum time in seconds that one call of the driver takes. Without it, the
	// setting of the controller applies.
	//
	// +optional
	// +kubebuilder:validation:Minimum=60
	Timeout *int64 `json:"timeout,omitempty"`
}

// TargetSpec names a volume.
type TargetSpec struct {
	// PersistentVolumeClaim is the name of a claim in the namespace of the object.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="persistentVolumeClaim is immutable"
	PersistentVolumeClaim string `json:"persistentVolumeClaim,omitempty"`
}

// ReclaimSpaceJobStatus is the progress and the result of a job.
type ReclaimSpaceJobStatus struct {
	// Result is Succeeded or Failed. It is empty until the job ends.
	// +optional
	Result OperationResult `json:"result,omitempty"`

	// Message describes the result or the last failure.
	// +optional
	Message string `json:"message,omitempty"`

	// Reason is one word for Message. The words do not change.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Step is what the job does or waits for: Waiting, Node or Controller. It is empty when the job
	// has ended.
	// +optional
	Step ReclaimSpaceStep `json:"step,omitempty"`

	// Node is the name of the Node on which the driver reclaims space.
	// +optional
	Node string `json:"node,omitempty"`

	// ReclaimedSpace is how much space was reclaimed, if the driver reports it.
	// +optional
	ReclaimedSpace *resource.Quantity `json:"reclaimedSpace,omitempty"`

	// Conditions describe the job.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Retries is the number of attempts after the first.
	// +optional
	Retries int32 `json:"retries,omitempty"`

	// StartTime is the time of the first attempt.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// CompletionTime is the time at which the job ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// ReclaimSpaceJobList is a list of ReclaimSpaceJobs.
//
// +kubebuilder:object:root=true
type ReclaimSpaceJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ReclaimSpaceJob `json:"items"`
}
