package kubectl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// volumesOf returns the volumes of drivers: claims, PersistentVolumes without one, and volumes of
// pods without one. Those that pods use are first, with the pods, and their number is used.
func (s *session) volumesOf(
	ctx context.Context, serves func(driver string) bool,
) (all []string, used int) {
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
				name, found = "inline volumes", true
			}
			if found && !hasEnded(pod) {
				pods[name] = append(pods[name], by)
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		if by := slices.Compact(pods[name]); len(by) > 0 {
			all = slices.Insert(all, used, name+" (pod "+diagnosis.List(by)+")")
			used++
		} else {
			all = append(all, name)
		}
	}
	return all, used
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

// isUnmanaged returns whether an administrator keeps the operator from changing the driver.
func (s *system) isUnmanaged() bool { return s.object.Spec.ManagementState == opv1.Unmanaged }

// isLed returns whether a process of the operator leads, also if that is not visible. None does if
// its namespace is gone, whatever the Lease says.
func (s *system) isLed() bool {
	isLost := s.namespaceGone && strings.HasPrefix(s.operatorName, s.of.namespace+"/")
	return !isLost && (s.hidden[hiddenControlPlane] || s.hidden["Leases"] ||
		s.leader(s.operatorLease) != "")
}

// gone returns a problem if nobody serves the volumes of the driver: its namespace is gone, or it
// has no pods, and nobody creates them.
func (s *system) gone() []Link {
	switch {
	case s == nil:
	case s.namespaceGone:
		return []Link{linkOf(s.noNamespace())}
	case s.unserved != "":
		return []Link{linkOf(s.unmanaged())}
	case s.controller == nil && len(s.nodes) == 0 && !s.isLed() && !s.hidden["Deployments"]:
		return []Link{linkOf(s.noOperator())}
	}
	return nil
}

// unmaintained returns a problem if nobody maintains a driver of OpenStack: nothing configures its
// operator, or it is gone.
func (s *session) unmaintained(sys *system, driver string) []Link {
	if sys == nil && s.guest.findDriver(driver) != nil && !s.guest.unseen() {
		return []Link{s.goneLink(driver)}
	}
	return sys.gone()
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
