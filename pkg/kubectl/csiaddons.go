package kubectl

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// advice says what to do about the reasons of CSI-Addons that are problems. A test compares it with
// docs/csi-addons/reference.md.
func advice(reason string) string {
	return meaning.OfEvent("CSIAddons"+reason, fault.Fault{}).Next
}

// told returns what an object of CSI-Addons says about itself, and what to do: about its error, or
// else about its reason.
func told(state State, reason, message string) Link {
	if message == "" {
		return linkf(state, "no controller of CSI-Addons has processed the object").
			then("Check Deployment csi-addons-controller-manager")
	}
	w := work{fails: reason, knows: advice(reason)}
	if l := w.error("", message); state == Problem && l.rank != meaning.Unknown {
		return l
	}
	l := linkf(state, "%s", strings.TrimPrefix(reason+": "+message, ": ")).then("%s", w.knows)
	l.said = message
	return l
}

// sidecars are the CSIAddonsNodes of a driver.
func (s *session) sidecars(ctx context.Context, driver string) []v1alpha1.CSIAddonsNode {
	d := s.guest.findDriver(driver)
	if d == nil {
		return nil
	}
	return slices.DeleteFunc(list[v1alpha1.CSIAddonsNodeList](ctx, s.guest,
		client.InNamespace(d.namespace)).Items, func(n v1alpha1.CSIAddonsNode) bool {
		return n.Spec.Driver.Name != driver
	})
}

// unconnected says why the controller of CSI-Addons is not connected to a sidecar; nil if it is.
func (c *cluster) unconnected(n *v1alpha1.CSIAddonsNode) *Link {
	if n.Status.State == v1alpha1.CSIAddonsNodeConnected {
		return nil
	}
	title, at := n.Spec.Driver.Name, n.Spec.Driver.EndPoint
	if d := c.findDriver(title); d != nil {
		title = d.title
	}
	l := linkf(Problem, "the controller of CSI-Addons is not connected to the sidecar of %s "+
		"on node %s, port %s (%s: %s)", title, n.Spec.Driver.NodeID, at[strings.LastIndex(at, ":")+1:],
		cmp.Or(n.Status.Reason, "new"), n.Status.Message).
		then("%s", cmp.Or(advice(n.Status.Reason), "See CSIAddonsNode "+n.Name))
	return &l
}

// sidecarLinks returns a problem for each sidecar on the nodes that is missing or not connected.
func (s *session) sidecarLinks(ctx context.Context, driver string, nodes []string) (links []Link) {
	all := s.sidecars(ctx, driver)
	for _, node := range nodes {
		i := slices.IndexFunc(all, func(n v1alpha1.CSIAddonsNode) bool {
			return n.Spec.Driver.NodeID == node
		})
		switch {
		case s.guest.hidden["CSIAddonsNodes"]:
			return only(NotVisible, "the CSIAddonsNodes, which say whether sidecars are connected")
		case i < 0:
			links = append(links, linkf(Problem, "no sidecar of driver %s has registered on node %s, which "+
				"uses the volume", driver, node).
				then("Check %s, and the pod of the driver there", s.guest.setting("csiAddons", driver)))
		case s.guest.unconnected(&all[i]) != nil:
			links = append(links, *s.guest.unconnected(&all[i]))
		}
	}
	return links
}

func explainJob(ctx context.Context, q question, job *v1alpha1.ReclaimSpaceJob) *Explanation {
	phase := cmp.Or(string(job.Status.Result), string(job.Status.Step), "Waiting")
	return &Explanation{State: q.state(job, phase), Chain: q.jobLinks(ctx, job)}
}

// jobLinks returns what a job waits for: first the sidecars on the nodes that use its volume.
func (q *question) jobLinks(ctx context.Context, job *v1alpha1.ReclaimSpaceJob) []Link {
	switch {
	case job.Status.Result == v1alpha1.OperationSucceeded:
		return []Link{told(OK, "", job.Status.Message)}
	case job.Status.Result == "" && (slices.Contains([]string{"Started", "TooManyCalls", "Dequeued"},
		job.Status.Reason) || job.Status.Reason == "" && q.clock.Since(job.CreationTimestamp.Time) <
		time.Minute):
		return []Link{told(Progress, job.Status.Reason, cmp.Or(job.Status.Message, "the job is new"))}
	}
	own := about("pvc/"+job.Spec.Target.PersistentVolumeClaim,
		[]Link{told(Problem, job.Status.Reason, job.Status.Message)})
	claim := find(ctx, q.guest, job.Namespace, job.Spec.Target.PersistentVolumeClaim,
		&corev1.PersistentVolumeClaim{})
	if claim != nil && job.Status.Reason == "ClaimNotBound" {
		own[0] = own[0].then("Run: kubectl openstack-csi why pvc/%s -n %s", claim.Name, claim.Namespace)
	}
	if claim == nil || job.Status.Reason != "NoSidecar" && job.Status.Reason != "Unsupported" {
		return own
	}
	volume := find(ctx, q.guest, "", claim.Spec.VolumeName, &corev1.PersistentVolume{})
	if d := q.guest.findDriver(driverOf(volume)); d != nil && d.kind == choice.Manila {
		l := linkf(Problem, "pvc/%s is a share, whose server frees space itself", claim.Name)
		return []Link{
			l.then("Delete the job, and what creates it: only volumes of Cinder need it"),
			also(own[0]).then(""),
		}
	} else if job.Status.Reason == "Unsupported" {
		return own
	}
	var nodes []string
	for _, a := range q.attachmentsOf(ctx, claim.Spec.VolumeName) {
		nodes = append(nodes, a.Spec.NodeName)
	}
	return append(q.sidecarLinks(ctx, driverOf(volume), nodes), own...)
}

func explainCronJob(
	ctx context.Context, q question, cron *v1alpha1.ReclaimSpaceCronJob,
) *Explanation {
	e := &Explanation{State: q.state(cron, "scheduled")}
	if ptr.Deref(cron.Spec.Suspend, false) {
		e.State = q.state(cron, "suspended")
	}
	active := ptr.Deref(cron.Status.Active, corev1.ObjectReference{}).Name
	switch reason := cron.Status.Reason; {
	case ptr.Deref(cron.Spec.Suspend, false):
		e.Chain = []Link{linkf(Problem, "no job starts while spec.suspend is true").
			then("Set spec.suspend to false")}
	case reason == "MinScheduleInterval", reason == "MissedSchedule":
		e.Chain = []Link{told(Warning, reason, cron.Status.Message)}
	case reason != "" && advice(reason) != "":
		e.Chain = []Link{told(Problem, reason, cron.Status.Message)}
	case cron.Status.NextScheduleTime != nil:
		e.Chain = only(OK, "the next job starts at %s",
			cron.Status.NextScheduleTime.UTC().Format(time.RFC3339))
	default:
		e.Chain = []Link{told(Problem, "", cron.Status.Message)}
	}
	jobs := list[v1alpha1.ReclaimSpaceJobList](ctx, q.guest, client.InNamespace(q.namespace)).Items
	jobs = slices.DeleteFunc(jobs, func(job v1alpha1.ReclaimSpaceJob) bool {
		return !metav1.IsControlledBy(&job, cron) || active != "" && job.Name != active
	})
	if len(jobs) > 0 {
		newest := slices.MaxFunc(jobs, func(a, b v1alpha1.ReclaimSpaceJob) int {
			return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		})
		of := about("job "+newest.Name, q.jobLinks(ctx, &newest))
		if e.Chain = append(e.Chain, of...); active != "" { // what the next job waits for
			e.Chain = append(of, e.Chain[:len(e.Chain)-len(of)]...)
		}
	}
	return e
}

func explainFence(ctx context.Context, q question, fence *v1alpha1.NetworkFence) *Explanation {
	e := &Explanation{State: q.state(fence, "not "+strings.ToLower(string(fence.Spec.FenceState)))}
	driver := q.fencedBy(ctx, fence)
	if driver == "" && !q.guest.hidden["NetworkFenceClasses"] {
		e.Chain = []Link{linkf(Problem, "NetworkFenceClass %s does not exist",
			fence.Spec.NetworkFenceClassName).then("Create it")}
	}
	c := ptr.Deref(meta.FindStatusCondition(fence.Status.Conditions, "Fenced"), metav1.Condition{})
	switch c.Reason {
	case string(fence.Spec.FenceState):
		e.State = q.state(fence, c.Reason)
		e.Chain = append(e.Chain, told(OK, c.Reason, c.Message))
	case "Started", "Waiting":
		e.Chain = append(e.Chain, told(Progress, c.Reason, c.Message))
	default:
		e.Chain = append(e.Chain, q.leaderLinks(ctx, driver)...)
		e.Chain = append(e.Chain, told(Problem, c.Reason, c.Message))
	}
	if v := meta.FindStatusCondition(fence.Status.Conditions, "Verified"); v != nil &&
		v.Status == metav1.ConditionFalse {
		e.Chain = append(e.Chain, told(Warning, v.Reason, v.Message))
	}
	return e
}

// fencedBy returns the driver of a NetworkFence, "" if its class cannot be read.
func (s *session) fencedBy(ctx context.Context, fence *v1alpha1.NetworkFence) string {
	class := find(ctx, s.guest, "", fence.Spec.NetworkFenceClassName, &v1alpha1.NetworkFenceClass{})
	return cmp.Or(ptr.Deref(class, v1alpha1.NetworkFenceClass{}).Spec.Provisioner, fence.Spec.Driver)
}

// leaderLinks returns why the controller is not connected to the leader, whose sidecar fences.
func (s *session) leaderLinks(ctx context.Context, driver string) []Link {
	d := s.guest.findDriver(driver)
	if d == nil {
		return nil
	}
	lease := find(ctx, s.guest, d.namespace, diagnosis.Provisioner.Lease(d.name),
		&coordinationv1.Lease{})
	all := s.sidecars(ctx, driver)
	for i := range all {
		if l := s.guest.unconnected(&all[i]); l != nil && all[i].Name == s.leader(lease) {
			return []Link{*l}
		}
	}
	return nil
}
