package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// Sidecar is a container of the controller that works only while it holds its Lease.
type Sidecar string

// sidecarWithoutLeader is the type of a finding. No condition has it.
const sidecarWithoutLeader = "SidecarWithoutLeader"

// The sidecars.
const (
	Provisioner Sidecar = "provisioner"
	Attacher    Sidecar = "attacher"
	Resizer     Sidecar = "resizer"
	Snapshotter Sidecar = "snapshotter"
)

// Lease returns the name of the Lease of the sidecar of a driver.
func (s Sidecar) Lease(driver string) string {
	prefixes := map[Sidecar]string{
		Provisioner: "", Attacher: "external-attacher-leader-", Resizer: "external-resizer-",
		Snapshotter: "external-snapshotter-leader-",
	}
	return prefixes[s] + strings.ReplaceAll(driver, ".", "-")
}

// waits says what waits while no process of the sidecar leads.
func (s Sidecar) waits() string {
	return map[Sidecar]string{
		Provisioner: "new claims wait", Attacher: "pods with new attachments wait",
		Resizer: "claims do not grow", Snapshotter: "snapshots wait",
	}[s]
}

// holder returns who holds a Lease, and when the Lease expires. The holder is "" if the Lease is
// released or does not exist.
func holder(lease *coordinationv1.Lease) (string, time.Time) {
	if lease == nil || lease.Spec.HolderIdentity == nil || lease.Spec.RenewTime == nil ||
		lease.Spec.LeaseDurationSeconds == nil {
		return "", time.Time{}
	}
	length := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
	return *lease.Spec.HolderIdentity, lease.Spec.RenewTime.Add(length)
}

// Leader returns the holder of a Lease that has not expired.
func Leader(lease *coordinationv1.Lease, now time.Time) string {
	name, expires := holder(lease)
	if now.Before(expires) {
		return name
	}
	return ""
}

// operator returns a problem if no process of the operator leads. A deleted operator leaves all
// conditions as they were.
func operator(name string, lease *coordinationv1.Lease, now time.Time) []diagnosis.Finding {
	if Leader(lease, now) != "" {
		return nil
	}
	f := diagnosis.Finding{
		Severity: diagnosis.Problem, Type: "OperatorAbsent", Reason: "NoLeader",
		Runbook: "openstackcsioperatorabsent",
		Message: fmt.Sprintf("the operator does not run, so conditions may be out of date. Check "+
			"Deployment %s", name),
	}
	if holder, expires := holder(lease); holder != "" {
		f.Since = metav1.NewTime(expires)
	}
	return []diagnosis.Finding{f}
}

// noLeader returns a problem if no process of a sidecar leads. The pods are those of the
// controller; nil means that they are not visible.
func noLeader(
	sidecar Sidecar, lease *coordinationv1.Lease, pods []corev1.Pod, now time.Time,
) *diagnosis.Finding {
	f := &diagnosis.Finding{
		Severity: diagnosis.Problem, Type: sidecarWithoutLeader, Reason: "NoLeader",
		Runbook: "openstackcsisidecarwithoutleader",
	}
	none := fmt.Sprintf("no %s leads, so %s", sidecar, sidecar.waits())
	name, expires := holder(lease)
	switch {
	case lease == nil:
		f.Message = none + ": its Lease does not exist"
	case name == "":
		f.Message = none + ": Lease " + lease.Name + " is free"
	case !now.Before(expires):
		f.Since = metav1.NewTime(expires)
		f.Message = fmt.Sprintf("%s: Lease %s expired %s ago", none, lease.Name,
			duration.HumanDuration(now.Sub(expires)))
	case pods != nil && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == name }):
		f.Since = metav1.NewTime(lease.Spec.RenewTime.Time)
		f.Message = fmt.Sprintf("%s: Lease %s belongs to pod %s, which is gone. The Lease is free in %s",
			none, lease.Name, name, duration.HumanDuration(expires.Sub(now)))
	default:
		return nil
	}
	return f
}
