package fence

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// ConditionPartlyUnfenced is True while a NetworkFence waits for the end of another one, and has
// ended the fence of some of its CIDRs. Its message contains the indexes of these CIDRs in
// spec.cidrs, so that no call unfences them again: another NetworkFence may have fenced them since,
// even if it does not exist any more.
//
// It is a condition because the CustomResourceDefinitions of other programs contain conditions, but
// no other field for it. The indexes of 1024 CIDRs fit into its message, and the CIDRs may not.
const ConditionPartlyUnfenced = "PartlyUnfenced"

// ended returns the CIDRs whose fence the current generation of a NetworkFence has ended, according
// to ConditionPartlyUnfenced.
func ended(f *v1alpha1.NetworkFence) []string {
	found := meta.FindStatusCondition(f.Status.Conditions, ConditionPartlyUnfenced)
	if found == nil || found.ObservedGeneration != f.Generation {
		return nil
	}
	var cidrs []string
	for word := range strings.FieldsSeq(found.Message) {
		if i, err := strconv.Atoi(word); err == nil && i >= 0 && i < len(f.Spec.Cidrs) {
			cidrs = append(cidrs, f.Spec.Cidrs[i])
		}
	}
	return cidrs
}

// remember sets or removes ConditionPartlyUnfenced. After a failed call the condition stays.
func (r *Reconciler) remember(f *v1alpha1.NetworkFence, o outcome) {
	old := meta.FindStatusCondition(f.Status.Conditions, ConditionPartlyUnfenced)
	switch {
	case len(o.ended) > 0:
		meta.SetStatusCondition(&f.Status.Conditions, metav1.Condition{
			Type: ConditionPartlyUnfenced, Status: metav1.ConditionTrue, Reason: ReasonFencedByAnother,
			Message:            "The fence of these items of spec.cidrs has ended: " + indexes(f, o.ended),
			ObservedGeneration: f.Generation, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
		})
	case o.fenced != metav1.ConditionUnknown || old != nil && old.ObservedGeneration != f.Generation:
		meta.RemoveStatusCondition(&f.Status.Conditions, ConditionPartlyUnfenced)
	}
}

// indexes returns the indexes of some CIDRs of a NetworkFence, separated by spaces.
func indexes(f *v1alpha1.NetworkFence, cidrs []string) string {
	var found []string
	for i, cidr := range f.Spec.Cidrs {
		if slices.Contains(cidrs, cidr) {
			found = append(found, strconv.Itoa(i))
		}
	}
	return strings.Join(found, " ")
}
