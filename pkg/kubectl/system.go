package kubectl

import (
	"cmp"
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/explain"
)

// controlPlane is the cluster and the namespace of the controllers of a driver and of its operator.
type controlPlane struct {
	*cluster

	namespace, operator string
}

// place returns where the control plane of a driver is; nil if it is not visible, or reading
// failed.
func (s *session) place(ctx context.Context, d driver) *controlPlane {
	if s.management != nil {
		return &controlPlane{s.management, s.hostedControl, s.hostedControl}
	}
	infrastructure := &configv1.Infrastructure{}
	find(ctx, s.guest, "", "cluster", infrastructure)
	if s.failed() != nil ||
		infrastructure.Status.ControlPlaneTopology == configv1.ExternalTopologyMode {
		return nil
	}
	return &controlPlane{s.guest, d.namespace, flavour.DefaultNamespace}
}

// system reads the objects of a driver; nil if it has no ClusterCSIDriver, or reading failed.
func (s *session) system(ctx context.Context, d driver) *explain.System {
	sys := &explain.System{
		Now: s.clock.Now(), Title: d.title, Workloads: 1 + len(d.nodes), Hidden: map[string]bool{},
		Leases: map[explain.Sidecar]*coordinationv1.Lease{}, Failures: map[string]string{},
	}
	sys.Driver = find(ctx, s.guest, "", d.name, &opv1.ClusterCSIDriver{})
	if sys.Driver == nil {
		return nil
	}
	s.readControlPlane(ctx, d, sys)
	for _, name := range d.nodes {
		if one := find(ctx, s.guest, d.namespace, name, &appsv1.DaemonSet{}); one != nil {
			sys.Nodes = append(sys.Nodes, *one)
		}
	}
	for _, sidecar := range d.sidecars {
		sys.Leases[sidecar] = find(ctx, s.guest, d.namespace, sidecar.Lease(d.name),
			&coordinationv1.Lease{})
	}
	s.addPods(ctx, d, sys)
	maps.Copy(sys.Hidden, s.guest.hidden)
	return sys
}

// addPods adds why DaemonSets lack pods, and whether the namespace of the driver is gone. It sends
// no request while all is well.
func (s *session) addPods(ctx context.Context, d driver, sys *explain.System) {
	if len(sys.Nodes) == 0 {
		namespace := find(ctx, s.guest, "", d.namespace, &corev1.Namespace{})
		if !s.guest.hidden["Namespaces"] && (namespace == nil || namespace.DeletionTimestamp != nil) {
			sys.NamespaceGone = d.namespace
		}
	}
	for i := range sys.Nodes {
		one := &sys.Nodes[i]
		if one.Status.NumberAvailable >= one.Status.DesiredNumberScheduled {
			continue
		}
		pods := podsOf(ctx, s.guest, one)
		sys.NodePods = append(sys.NodePods, pods...)
		if len(pods) < int(one.Status.DesiredNumberScheduled) {
			sys.Failures[one.Name] = diagnosis.FailedCreate(events(ctx, s.guest, one))
		}
	}
}

// podsOf returns the pods that the selector of a workload selects.
func podsOf(ctx context.Context, from *cluster, workload client.Object) []corev1.Pod {
	var pods corev1.PodList
	selector := diagnosis.NewWorkload(workload, nil).Selector
	labels, err := metav1.LabelSelectorAsSelector(selector)
	from.failed = cmp.Or(from.failed, err)
	from.read(ctx, &pods, client.InNamespace(workload.GetNamespace()),
		client.MatchingLabelsSelector{Selector: labels})
	from.addLog(ctx, pods.Items)
	return pods.Items
}

// addLog adds the end of its log to the first container that has ended without a message, if the
// caller may read logs. Cinder's driver ends so after a refused login.
func (c *cluster) addLog(ctx context.Context, pods []corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	for i := range pods {
		for _, status := range pods[i].Status.ContainerStatuses {
			ended := diagnosis.Ended(status)
			if ended == nil || ended.Message != "" {
				continue
			}
			text, err := c.logs(ctx, &pods[i], &corev1.PodLogOptions{
				Container: status.Name, Previous: status.State.Terminated == nil, TailLines: ptr.To[int64](5),
			})
			const most = 4 << 10 // of the end, which diagnosis reads
			if err == nil {
				ended.Message = string(text[max(0, len(text)-most):])
			}
			return
		}
	}
}

// readControlPlane reads the Deployments of the driver and of its operator.
func (s *session) readControlPlane(ctx context.Context, d driver, sys *explain.System) {
	at := s.place(ctx, d)
	if at == nil {
		sys.Hidden[explain.HiddenControlPlane] = true
		s.guest.hidden[explain.HiddenControlPlane+" (--management-kubeconfig)"] = true
		return
	}
	sys.OperatorName = at.operator + "/" + d.operator
	sys.Operator = find(ctx, at.cluster, at.operator, d.operator, &appsv1.Deployment{})
	sys.Controller = find(ctx, at.cluster, at.namespace, d.controller, &appsv1.Deployment{})
	if s.management != nil && sys.Operator == nil && sys.Controller == nil {
		s.checkHosted(ctx)
	}
	sys.OperatorLease = find(ctx, at.cluster, at.operator, d.lease, &coordinationv1.Lease{})
	if sys.Operator == nil && at.hidden["Infrastructures"] { // it may be a guest cluster
		sys.Hidden[explain.HiddenControlPlane] = true
	}
	if sys.Controller != nil {
		var sets appsv1.ReplicaSetList
		at.read(ctx, &sets, client.InNamespace(at.namespace),
			client.MatchingLabels(sys.Controller.Spec.Selector.MatchLabels))
		sys.ReplicaSets = sets.Items
		sys.Pods = podsOf(ctx, at.cluster, sys.Controller)
	}
	if o := sys.Operator; o != nil && o.Status.AvailableReplicas < ptr.Deref(o.Spec.Replicas, 1) {
		sys.OperatorPods = podsOf(ctx, at.cluster, o)
	}
	maps.Copy(sys.Hidden, at.hidden)
}

// checkHosted fails if there is no hosted control plane where a flag says it is.
func (s *session) checkHosted(ctx context.Context) {
	planes := s.management.hostedControlPlanes(ctx, s.hostedControl)
	if len(planes) == 0 && !s.management.hidden["HostedControlPlanes"] {
		s.management.failed = cmp.Or(s.management.failed, usage("namespace %s of the management "+
			"cluster contains no HostedControlPlane. Check --management-namespace: kubectl get "+
			"hostedcontrolplanes --all-namespaces", s.hostedControl))
	}
}

// notVisible returns the kinds that could not be read in any cluster.
func (s *session) notVisible() []string {
	if s.guest == nil {
		return nil
	}
	kinds := s.guest.notVisible()
	if s.management != nil {
		kinds = append(kinds, s.management.notVisible()...)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
