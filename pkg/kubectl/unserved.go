package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// inlineVolumes is the name of those that a pod contains.
const inlineVolumes = "inline volumes"

// volumesOf returns the volumes of drivers. used are the first ones, with the pods that use them.
func (s *session) volumesOf(
	ctx context.Context, serves func(driver string) bool,
) (all, used []string) {
	pods := map[string][]string{}
	visit(ctx, s.guest, &corev1.PersistentVolumeList{}, func(v *corev1.PersistentVolume) {
		name := "PersistentVolume " + v.Name
		if ref := v.Spec.ClaimRef; ref != nil {
			name = "claim " + ref.Namespace + "/" + ref.Name
		}
		if serves(driverOf(v)) {
			pods[name] = nil
		}
	})
	visit(ctx, s.guest, &corev1.PodList{}, func(pod *corev1.Pod) {
		for _, v := range pod.Spec.Volumes {
			name, by := "claim "+pod.Namespace+"/"+claimName(pod, v), pod.Namespace+"/"+pod.Name
			_, found := pods[name]
			if v.CSI != nil && serves(v.CSI.Driver) {
				name, found = inlineVolumes, true
			}
			if found && !hasEnded(pod) {
				pods[name] = append(pods[name], by)
			}
		}
	})
	all = slices.SortedFunc(maps.Keys(pods), func(a, b string) int {
		return cmp.Or(min(len(pods[b]), 1)-min(len(pods[a]), 1), cmp.Compare(a, b))
	})
	i := 0
	for ; i < len(all) && len(pods[all[i]]) > 0; i++ {
		all[i] += " (pod " + diagnosis.List(slices.Compact(pods[all[i]])) + ")"
	}
	return all, all[:i]
}

// isRegistered returns whether a node has registered a driver, also if that is not visible.
func (s *session) isRegistered(ctx context.Context, driver string) bool {
	return slices.ContainsFunc(list[storagev1.CSINodeList](ctx, s.guest).Items,
		func(n storagev1.CSINode) bool {
			return slices.ContainsFunc(n.Spec.Drivers, func(one storagev1.CSINodeDriver) bool {
				return one.Name == driver
			})
		}) || s.guest.hidden["CSINodes"]
}

// isLed returns whether a process of the operator leads and can work, or may. The Lease outlives
// its namespace, and its renewal needs none of the permissions that another installation takes.
func (s *system) isLed() bool {
	isLost := s.namespaceGone && strings.HasPrefix(s.operatorName, s.of.namespace+"/")
	return !isLost && s.taker == "" && (s.hidden[hiddenControlPlane] || s.hidden["Leases"] ||
		s.leader(s.operatorLease) != "")
}

// gone returns a problem if nobody serves the volumes of the driver: its namespace is gone, or it
// has no pods, and nobody creates them.
func (s *system) gone() []Link {
	if s == nil || !s.namespaceGone && s.unserved == "" &&
		(s.isLed() || s.controller != nil || len(s.nodes) > 0 || s.hidden["Deployments"]) {
		return nil
	}
	return []Link{linkOf(s.findings()[0])}
}

// uninstalled returns a problem if nothing in the cluster serves the volumes of a driver: it is
// gone, or no object configures it, and neither the cluster nor a node has registered it.
func (s *session) uninstalled(ctx context.Context, driver string) []Link {
	if sys := s.systemOf(ctx, driver); sys != nil || driver == "" || s.guest.unseen() {
		return sys.gone()
	}
	if known, _ := s.meantDriver(ctx, driver); known || s.isRegistered(ctx, driver) {
		return nil
	}
	again := "Install it again"
	if d := s.guest.findDriver(driver); d != nil {
		again = s.guest.again(*d)
	}
	return []Link{linkf(Problem, "no driver %s is installed in the cluster, so nothing attaches, "+
		"detaches or deletes its volumes", driver).then("%s. Without a driver, removed finalizers leave "+
		"the volume and its attachment in the cloud", again)}
}

// unservedBy says which volumes of a driver without pods nobody serves, "" for none, or if nodes
// have registered the driver of another installation.
func (s *session) unservedBy(ctx context.Context, d driver) string {
	all, _ := s.volumesOf(ctx, func(name string) bool { return name == d.name })
	if len(all) == 0 || s.isRegistered(ctx, d.name) {
		return ""
	}
	return fmt.Sprintf("nothing serves the volumes of the driver (%d), so they cannot be mounted, "+
		"unmounted or deleted: %s", len(all), diagnosis.List(all))
}
