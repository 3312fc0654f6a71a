package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

const (
	// podsInterval is the minimum time between two lists of the pods of a workload, and emptyInterval
	// while nothing explains what is wrong: a scheduler or a kubelet needs some seconds for a reason.
	podsInterval  = 30 * time.Second
	emptyInterval = 5 * time.Second
	// maxPods is the maximum number of pods, and of events, in a list. It bounds the memory.
	maxPods = 100
	// rolloutTimeout is the time after which library-go's controller reports a Deployment that is
	// rolled out as Degraded.
	rolloutTimeout = 15 * time.Minute
)

// podReasons adds to the conditions of a workload why its pods do not run. It sends requests only
// while the workload has no available pod or is rolled out. If it may not read pods, the conditions
// stay as library-go writes them.
type podReasons struct {
	kube  kubernetes.Interface
	clock clock.PassiveClock
	// get returns the workload in the cache, nil if there is none.
	get func() metav1.Object
	// hosted says that Deployments are in the management cluster, and the conditions in a guest.
	hosted bool
	// object is the name of the workload in messages.
	object string

	read            time.Time
	reason, message string
	// since is when the rollout of a Deployment started, and progressing whether it continues.
	// unsettled is true if a condition of the last sync reports a problem of the workload.
	since                  time.Time
	progressing, unsettled bool
}

// named returns the error of a request of library-go, which says what the API server says, with the
// name of the workload. Other errors name what they are about.
func (r *podReasons) named(err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.Error() != err.Error() {
		return err
	}
	return fmt.Errorf("%s: %w", r.object, err)
}

func (d *driver) workloadClient(
	name string, clients *cluster.Clients, get func() metav1.Object,
) (v1helpers.OperatorClientWithFinalizers, *podReasons) {
	reasons := &podReasons{
		kube: clients.Kube, clock: d.clock, get: get, hosted: d.cluster.Flavour.Hosted(),
	}
	return cluster.View{
		OperatorClientWithFinalizers: d.cluster.Workloads(d.operator),
		Status:                       func(s *opv1.OperatorStatus) { reasons.hideDuration(name, s) },
		Condition:                    reasons.add,
	}, reasons
}

// hideDuration changes since when a workload has been rolled out. After rolloutTimeout library-go's
// controller would not update the conditions of a Deployment any more, except for Degraded.
func (r *podReasons) hideDuration(name string, status *opv1.OperatorStatus) {
	r.since, r.progressing, r.unsettled = time.Time{}, false, false
	for i, c := range status.Conditions {
		if c.Type == name+opv1.OperatorStatusTypeProgressing && c.Status == opv1.ConditionTrue {
			r.since = c.LastTransitionTime.Time
			status.Conditions[i].LastTransitionTime = metav1.NewTime(r.clock.Now())
		}
	}
}

// degrade reports a Deployment that is rolled out for too long, as library-go does.
func (r *podReasons) degrade(c *cluster.Condition) {
	late := r.progressing && !r.since.IsZero() && r.clock.Since(r.since) > rolloutTimeout
	if deployment, ok := r.get().(*appsv1.Deployment); ok && late &&
		ptr.Deref(c.Status, "") == opv1.ConditionFalse {
		c.WithStatus(opv1.ConditionTrue).WithReason("SyncError").WithMessage(fmt.Sprintf(
			"The rollout of Deployment %s takes longer than %v", deployment.Name, rolloutTimeout))
	}
}

// add changes a condition that reports a problem of the workload.
func (r *podReasons) add(ctx context.Context, c *cluster.Condition) {
	conditionType, status := ptr.Deref(c.Type, ""), ptr.Deref(c.Status, "")
	switch {
	case strings.HasSuffix(conditionType, opv1.OperatorStatusTypeDegraded):
		r.degrade(c)
		return
	case diagnosis.SeverityOf(conditionType, status) == "":
		return
	case strings.HasSuffix(conditionType, opv1.OperatorStatusTypeProgressing):
		r.progressing = true
	}
	r.unsettled = true
	interval := podsInterval
	if r.reason == "" {
		interval = emptyInterval
	}
	if now := r.clock.Now(); now.Sub(r.read) >= interval {
		r.read, r.reason, r.message = now, "", ""
		if err := r.refresh(ctx); err != nil {
			klog.FromContext(ctx).V(2).Info("Conditions do not say why pods do not run", "error", err)
		}
	}
	if r.message != "" {
		c.WithReason(cmp.Or(r.reason, ptr.Deref(c.Reason, ""))).WithMessage(r.message)
	}
}

func (r *podReasons) refresh(ctx context.Context) error {
	object := r.get()
	if object == nil {
		return nil
	}
	core, namespace := r.kube.CoreV1(), object.GetNamespace()
	about := r.about(object)
	if w := diagnosis.NewWorkload(object, nil); r.hosted && w.Available < w.Wanted {
		r.message = about // until something explains it, or if pods may not be read
	}
	selector := metav1.FormatLabelSelector(diagnosis.NewWorkload(object, nil).Selector)
	pods, err := core.Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: selector, Limit: maxPods,
	})
	if err != nil {
		return err
	}
	w := diagnosis.NewWorkload(object, pods.Items)
	reason, trouble, _ := w.Trouble()
	if trouble == "" && w.Kind == "DaemonSet" && len(w.Pods) < min(int(w.Wanted), maxPods) {
		// A DaemonSet has no condition about pods that it cannot create.
		events, err := core.Events(namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.Set{
				"involvedObject.kind": w.Kind, "involvedObject.name": w.Name,
				"involvedObject.uid": string(object.GetUID()),
			}.String(), Limit: maxPods,
		})
		if err != nil {
			return err
		}
		w.Failure = diagnosis.FailedCreate(events.Items)
		reason, trouble, _ = w.Trouble()
	}
	if trouble == "" {
		return nil
	}
	if strings.HasPrefix(diagnosis.SaidIn(trouble), "violates PodSecurity ") {
		trouble += ". Run: kubectl label namespace " + namespace +
			" --overwrite pod-security.kubernetes.io/enforce=privileged"
	}
	r.reason, r.message = reason, about+": "+trouble
	return nil
}

// about says which workload lacks pods, and where its administrators find it.
func (r *podReasons) about(object metav1.Object) string {
	w := diagnosis.NewWorkload(object, nil)
	name := w.Kind + " " + w.Name
	if r.hosted && w.Kind == "Deployment" {
		name += fmt.Sprintf(" in namespace %s of the %s", object.GetNamespace(),
			diagnosis.ManagementCluster)
	}
	if w.Available >= w.Wanted {
		return "The rollout of " + name + " does not end"
	}
	return name + " has too few pods"
}
