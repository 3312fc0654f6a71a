package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of all kinds.
const Group = "csiaddons.openshift.io"

// GroupVersion returns the group and the version of the kinds of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: "v1alpha1"}
}

// AddToScheme adds the kinds to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(),
		&CSIAddonsNode{}, &CSIAddonsNodeList{},
		&ReclaimSpaceJob{}, &ReclaimSpaceJobList{},
		&ReclaimSpaceCronJob{}, &ReclaimSpaceCronJobList{},
		&NetworkFence{}, &NetworkFenceList{},
		&NetworkFenceClass{}, &NetworkFenceClassList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}
