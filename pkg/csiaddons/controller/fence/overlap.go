package fence

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// clusterParameter is the key of the parameters that contains the ID of a storage cluster. Ceph
// uses it.
const clusterParameter = "clusterID"

// overlap is what the other NetworkFences of a driver mean for one of them. Clients are fenced
// while one NetworkFence fences them.
type overlap struct {
	// unfenced are the CIDRs that no other NetworkFence fences: only their fence may end. ended are
	// those whose fence an earlier call has ended, and nothing else.
	unfenced, ended []string
	// kept is the number of CIDRs that another NetworkFence fences too, and keeper one of those.
	kept   int
	keeper string
	// without is a NetworkFence that fences some of the clients with another CIDR, or that fences a
	// CIDR of ended.
	without string
	// opposite is a NetworkFence that unfences one of the CIDRs.
	opposite string
}

// sameStorage returns the other NetworkFences that may be about the storage of one of them. Nobody
// knows the driver of one whose class does not exist any more. Two that name different storage
// clusters are not about the same storage.
func sameStorage(all []*task, own *task) (found []*v1alpha1.NetworkFence) {
	cluster := own.request.GetParameters()[clusterParameter]
	for _, t := range all {
		other := t.request.GetParameters()[clusterParameter]
		if t != own && (t.driver == "" || t.driver == own.driver &&
			(other == cluster || other == "" || cluster == "")) {
			found = append(found, t.fence)
		}
	}
	return found
}

// compare compares a NetworkFence with others. It ignores what is no CIDR.
func compare(f *v1alpha1.NetworkFence, others []*v1alpha1.NetworkFence) overlap {
	networks := make([][]netip.Prefix, 0, len(others))
	for i := range others {
		networks = append(networks, parse(others[i].Spec.Cidrs))
	}
	var found overlap
	earlier := ended(f)
	for _, text := range f.Spec.Cidrs {
		own, err := wire.ParseCIDR(text)
		if err != nil {
			continue
		}
		keeper := ""
		for i := range others {
			other := others[i]
			equal := slices.Contains(networks[i], own)
			fences := other.Spec.FenceState != v1alpha1.Unfenced
			switch {
			case equal && fences:
				keeper = other.Name
			case equal:
				found.opposite = other.Name
			case fences && slices.ContainsFunc(networks[i], own.Overlaps):
				found.without = other.Name
			}
		}
		switch {
		case slices.Contains(earlier, text):
			found.ended = append(found.ended, text)
			found.without = cmp.Or(keeper, found.without) // it is later than the end
		case keeper == "":
			found.unfenced = append(found.unfenced, text) // as it was fenced
		default:
			found.kept++
			found.keeper = keeper
		}
	}
	return found
}

// parse returns the networks of CIDRs, also of those with bits after the prefix.
func parse(cidrs []string) []netip.Prefix {
	networks := make([]netip.Prefix, 0, len(cidrs))
	for _, cidr := range cidrs {
		if network, err := wire.ParseCIDR(cidr); err == nil {
			networks = append(networks, network)
		}
	}
	return networks
}

// masked returns CIDRs without bits after the prefix, each once.
func masked(cidrs []string) []string {
	var found []string
	for _, network := range parse(cidrs) {
		if text := network.String(); !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}

// outcome returns the outcome of a call without an error.
func (o overlap) outcome(f *v1alpha1.NetworkFence) outcome {
	done := outcome{result: v1alpha1.OperationSucceeded}
	switch {
	case f.Spec.FenceState != v1alpha1.Unfenced:
		done.fenced, done.reason = metav1.ConditionTrue, ReasonFenced
		done.message = "The clients have no access"
		if o.opposite != "" {
			done.message += fmt.Sprintf(". NetworkFence %s unfences some of them: a fence takes precedence",
				o.opposite)
		}
	case o.kept > 0:
		// This NetworkFence has ended its fence, so it succeeds.
		done.fenced, done.reason = metav1.ConditionUnknown, ReasonFencedByAnother
		done.message = fmt.Sprintf("%d of %d CIDRs stay fenced, because another NetworkFence fences "+
			"them too, such as %s. They are unfenced when no other NetworkFence does", o.kept,
			len(f.Spec.Cidrs), o.keeper)
		done.ended = slices.Concat(o.ended, o.unfenced)
	default:
		done.fenced, done.reason = metav1.ConditionFalse, ReasonUnfenced
		done.message = "The fence of the clients has ended" // a deleted fence may contain them, too
		if o.without != "" {
			done.message += fmt.Sprintf(". NetworkFence %s fences some of them", o.without)
		}
	}
	return done
}

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
		r.set(f, ConditionPartlyUnfenced, metav1.ConditionTrue, ReasonFencedByAnother,
			"The fence of these items of spec.cidrs has ended: "+indexes(f, o.ended))
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
