package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConcurrencyPolicy says what happens if the previous job still runs when the next is due.
//
// +kubebuilder:validation:Enum=Forbid;Replace
type ConcurrencyPolicy string

// The policies of concurrency.
const (
	// ForbidConcurrent delays the next job until the previous job ends.
	ForbidConcurrent ConcurrencyPolicy = "Forbid"
	// ReplaceConcurrent cancels the previous job and starts the next.
	ReplaceConcurrent ConcurrencyPolicy = "Replace"
)

// ReclaimSpaceCronJob reclaims the unused space of a volume on a schedule.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="csi-addons.openstack.org/revision=4"
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Active",type=string,JSONPath=`.status.active.name`
// +kubebuilder:printcolumn:name="Lastschedule",type=date,JSONPath=`.status.lastScheduleTime`
// +kubebuilder:printcolumn:name="Lastsuccessfultime",type=date,JSONPath=`.status.lastSuccessfulTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.jobTemplate.spec.target.persistentVolumeClaim`
// +kubebuilder:printcolumn:name="Nextschedule",type=string,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name="Reason",type=string,priority=1,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.message`
type ReclaimSpaceCronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ReclaimSpaceCronJobSpec   `json:"spec"`
	Status ReclaimSpaceCronJobStatus `json:"status,omitempty"`
}

// ReclaimSpaceCronJobSpec says when jobs start, and what they do.
type ReclaimSpaceCronJobSpec struct {
	// Schedule is the schedule in the format of cron, in UTC.
	//
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`.+`
	Schedule string `json:"schedule"`

	// StartingDeadlineSeconds is the time in seconds after which a missed job is not started any more.
	//
	// +optional
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// ConcurrencyPolicy says what happens if the previous job still runs when the next is due: Forbid
	// delays the next job until the previous job ends, Replace cancels the previous job.
	//
	// +optional
	// +kubebuilder:default=Forbid
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// Suspend prevents new jobs. It does not affect jobs that run.
	//
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// JobTemplate describes the jobs.
	JobTemplate ReclaimSpaceJobTemplateSpec `json:"jobTemplate"`

	// SuccessfulJobsHistoryLimit is the number of succeeded jobs to keep.
	//
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=60
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// FailedJobsHistoryLimit is the number of failed jobs to keep.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=60
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
}

// ReclaimSpaceJobTemplateSpec is the template of a job.
type ReclaimSpaceJobTemplateSpec struct {
	// ObjectMeta contains the labels and annotations of the jobs. A CustomResourceDefinition of the
	// CSI-Addons for Ceph drops its fields.
	//
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the specification of the jobs.
	Spec ReclaimSpaceJobSpec `json:"spec"`
}

// ReclaimSpaceCronJobStatus is what the controller reports about the jobs.
type ReclaimSpaceCronJobStatus struct {
	// Active is the job that runs.
	// +optional
	Active *corev1.ObjectReference `json:"active,omitempty"`

	// LastScheduleTime is the time of the schedule at which the last job was started.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// LastSuccessfulTime is the time at which a job succeeded last.
	// +optional
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`

	// NextScheduleTime is the time at which the next job starts.
	// +optional
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`

	// Reason is one word for Message. The words do not change.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message says why no job starts, or why jobs were missed.
	// +optional
	Message string `json:"message,omitempty"`
}

// ReclaimSpaceCronJobList is a list of ReclaimSpaceCronJobs.
//
// +kubebuilder:object:root=true
type ReclaimSpaceCronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ReclaimSpaceCronJob `json:"items"`
}
