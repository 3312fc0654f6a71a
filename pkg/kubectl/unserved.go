package kubectl

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// volumesOf returns the number of PersistentVolumes of drivers, and the claims and pods with them.
func (s *session) volumesOf(
	ctx context.Context, serves func(driver string) bool,
) (count int, claims, pods []string) {
	visit(ctx, s.guest, &corev1.PersistentVolumeList{}, func(v *corev1.PersistentVolume) {
		if !serves(driverOf(v)) {
			return
		}
		if count++; v.Spec.ClaimRef != nil {
			claims = append(claims, v.Spec.ClaimRef.Namespace+"/"+v.Spec.ClaimRef.Name)
		}
	})
	slices.Sort(claims)
	visit(ctx, s.guest, &corev1.PodList{}, func(pod *corev1.Pod) {
		if !hasEnded(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			_, found := slices.BinarySearch(claims, pod.Namespace+"/"+claimName(pod, v))
			return found || v.CSI != nil && serves(v.CSI.Driver)
		}) {
			pods = append(pods, pod.Namespace+"/"+pod.Name)
		}
	})
	return count, claims, pods
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

// uninstalled returns a problem if nothing in the cluster serves the volumes of a driver: no object
// configures it, and neither the cluster nor a node has registered it.
func (s *session) uninstalled(ctx context.Context, driver string) []Link {
	if driver == "" || s.systemOf(ctx, driver) != nil || s.guest.unseen() {
		return nil
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
	if s.isRegistered(ctx, d.name) {
		return ""
	}
	count, claims, pods := s.volumesOf(ctx, func(name string) bool { return name == d.name })
	if count == 0 {
		return ""
	}
	text := fmt.Sprintf("nothing serves the PersistentVolumes of the driver (%d), so they cannot be "+
		"mounted, unmounted or deleted", count)
	if len(claims) > 0 {
		text += ". Claims: " + diagnosis.List(claims)
	}
	if len(pods) > 0 {
		text += ". Pods: " + diagnosis.List(pods)
	}
	return text
}
