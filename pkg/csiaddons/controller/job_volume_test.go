package controller

import (
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// An API server answers such names with errors, so a job with one would never end.
func TestJobWithAnInvalidNameOfAClaimEnds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a/b", "..", strings.Repeat("a", 300)} {
		job := &v1alpha1.ReclaimSpaceJob{}
		job.Spec.Target.PersistentVolumeClaim = name
		_, problem, err := (&Jobs{}).volume(t.Context(), job)
		if err != nil || problem == nil || !problem.final || problem.reason != ReasonNoTarget {
			t.Errorf("the claim %.20q has the problem %+v and the error %v", name, problem, err)
		}
	}
}
