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
)

// controlPlane is the cluster and the namespace of the controllers of a driver and of its operator.
type controlPlane struct {
	*cluster

	namespace, operator string
}

// place returns where the control plane of a driver is; nil if it is hidden, or reading failed.
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
	return &controlPlane{s.guest, d.namespace, d.operatorIn}
}

// hiddenControlPlane is a key of system.hidden.
const hiddenControlPlane = "hosted control plane"

// system contains the objects of one driver. The kinds in hidden could not be read; every other
// object that is nil does not exist.
type system struct {
	*session

	of     driver
	hidden map[string]bool
	object *opv1.ClusterCSIDriver
	// operatorName is namespace/name of the operator's Deployment.
	operatorName  string
	operator      *appsv1.Deployment
	operatorLease *coordinationv1.Lease
	// taker is the namespace of the installation that has taken the permissions of the operator.
	taker string
	// operatorPods are read if the operator lacks pods.
	operatorPods []corev1.Pod
	controller   *appsv1.Deployment
	// replicaSets and pods are those of the controller.
	replicaSets []appsv1.ReplicaSet
	pods        []corev1.Pod
	nodes       []appsv1.DaemonSet
	// revisions are those of the DaemonSets.
	revisions []appsv1.ControllerRevision
	// nodePods are those of DaemonSets that lack pods, failures why a DaemonSet cannot create pods.
	nodePods []corev1.Pod
	failures map[string]string
	// lostNodes are nodes where pods of DaemonSets fail, by name.
	lostNodes map[string]*corev1.Node
	// namespaceGone says that the namespace does not exist, or is being deleted. Only then
	// namespace is not nil.
	namespaceGone bool
	namespace     *corev1.Namespace
	// unfit is why no node fits the pods of a workload, by its name.
	unfit map[string]Link
	// unserved says which volumes nobody serves because the driver is Unmanaged, "" for none.
	unserved string
	leases   map[diagnosis.Sidecar]*coordinationv1.Lease
}

// system reads the objects of a driver; nil if nothing configures its operator, or reading failed.
func (s *session) system(ctx context.Context, d driver) *system {
	sys := &system{
		session: s, of: d, hidden: map[string]bool{}, failures: map[string]string{},
		lostNodes: map[string]*corev1.Node{},
		unfit:     map[string]Link{}, leases: map[diagnosis.Sidecar]*coordinationv1.Lease{},
	}
	sys.object = s.object(ctx, d)
	if sys.object == nil {
		return nil
	}
	sys.readControlPlane(ctx)
	for _, name := range d.nodes {
		if one := find(ctx, s.guest, d.namespace, name, &appsv1.DaemonSet{}); one != nil {
			sys.nodes = append(sys.nodes, *one)
		}
	}
	sys.revisions = list[appsv1.ControllerRevisionList](ctx, s.guest,
		client.InNamespace(d.namespace)).Items
	for _, sidecar := range d.sidecars {
		sys.leases[sidecar] = find(ctx, s.guest, d.namespace, sidecar.Lease(d.name),
			&coordinationv1.Lease{})
	}
	sys.readPods(ctx)
	maps.Copy(sys.hidden, s.guest.hidden)
	if !sys.isLed() || sys.object.Spec.ManagementState == opv1.Unmanaged { // nobody maintains them
		sys.object.Status.Conditions = nil
	}
	return sys
}

// systemOf returns the objects of the driver with a name; nil for other drivers. It reads them once
// for all claims of a pod.
func (s *session) systemOf(ctx context.Context, name string) *system {
	d := s.guest.findDriver(name)
	if d == nil {
		return nil
	}
	known, found := s.systems[name]
	if !found {
		known = s.system(ctx, *d)
		s.systems[name] = known
	}
	return known
}

// isGone returns whether a driver of OpenStack has no object that configures its operator.
func (s *session) isGone(sys *system, driver string) bool {
	return sys == nil && s.guest.findDriver(driver) != nil && !s.guest.unseen()
}

// readPods reads whether the namespace of the driver is gone, and why workloads lack pods.
func (s *system) readPods(ctx context.Context) {
	now := find(ctx, s.guest, "", s.of.namespace, &corev1.Namespace{})
	if now != nil && now.DeletionTimestamp != nil {
		s.namespace = now
	}
	s.namespaceGone = s.namespace != nil ||
		now == nil && len(s.nodes) == 0 && !s.guest.hidden["Namespaces"]
	if len(s.nodes) == 0 && s.controller == nil && s.object.Spec.ManagementState == opv1.Unmanaged &&
		!s.hidden[hiddenControlPlane] {
		s.unserved = s.unservedBy(ctx, s.of)
	}
	for i := range s.nodes {
		one := &s.nodes[i]
		if one.Status.NumberAvailable >= one.Status.DesiredNumberScheduled {
			continue
		}
		pods := podsOf(ctx, s.guest, one)
		s.nodePods = append(s.nodePods, pods...)
		for i := range pods {
			if name := pods[i].Spec.NodeName; !isReady(&pods[i]) && len(s.lostNodes) < maxPods {
				s.lostNodes[name] = s.node(ctx, name)
			}
		}
		if len(pods) < int(one.Status.DesiredNumberScheduled) {
			s.failures[one.Name] = diagnosis.FailedCreate(events(ctx, s.guest, one))
		}
	}
	for _, w := range s.workloads() {
		s.readUnfit(ctx, w)
	}
}

// readUnfit reads why no node fits a pod of a workload, or those of a DaemonSet that wants none.
func (s *system) readUnfit(ctx context.Context, w diagnosis.Workload) {
	i := slices.IndexFunc(w.Pods, func(p corev1.Pod) bool {
		_, reason, _ := diagnosis.PodTrouble(&p)
		return reason == diagnosis.ReasonUnscheduled
	})
	one := slices.IndexFunc(s.nodes, func(d appsv1.DaemonSet) bool {
		return d.Name == w.Name && d.Status.DesiredNumberScheduled == 0
	})
	switch {
	case w.Kind == deployment && s.management != nil:
	case i >= 0:
		if l := causeOf(s.podFacts(ctx, &w.Pods[i]).schedulingLinks(ctx)); l.State == Problem {
			s.unfit[w.Name] = *l
		}
	case one >= 0:
		pod := &corev1.Pod{Spec: s.nodes[one].Spec.Template.Spec}
		pod.Namespace, pod.Name = s.of.namespace, w.Name+"-"
		f, nodes := s.podFacts(ctx, pod), list[corev1.NodeList](ctx, s.guest).Items
		if len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n corev1.Node) bool {
			return f.barred(&n).why == ""
		}) {
			s.unfit[w.Name] = f.barredLink(nil, nodes)
		}
	}
}

// podsOf returns the pods that the selector of a workload selects.
func podsOf(ctx context.Context, from *cluster, workload client.Object) []corev1.Pod {
	labels, err := metav1.LabelSelectorAsSelector(diagnosis.NewWorkload(workload, nil).Selector)
	from.failed = cmp.Or(from.failed, err)
	pods := list[corev1.PodList](ctx, from, client.InNamespace(workload.GetNamespace()),
		client.MatchingLabelsSelector{Selector: labels}).Items
	from.addLog(ctx, pods)
	for i := range pods {
		if from.addPull(ctx, &pods[i]) {
			break
		}
	}
	return pods
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

func (s *system) readControlPlane(ctx context.Context) {
	at := s.place(ctx, s.of)
	if at == nil {
		s.hidden[hiddenControlPlane] = true
		s.guest.hidden[hiddenControlPlane+" (--management-kubeconfig)"] = true
		return
	}
	s.operatorName = at.operator + "/" + s.of.operator
	s.operator = find(ctx, at.cluster, at.operator, s.of.operator, &appsv1.Deployment{})
	s.controller = find(ctx, at.cluster, at.namespace, s.of.controller, &appsv1.Deployment{})
	if s.management != nil && s.operator == nil && s.controller == nil {
		s.checkHosted(ctx)
	}
	s.operatorLease = find(ctx, at.cluster, at.operator, s.of.lease, &coordinationv1.Lease{})
	// Without a right to read Infrastructures it may be a guest cluster.
	s.hidden[hiddenControlPlane] = s.operator == nil && at.hidden["Infrastructures"]
	if s.controller != nil {
		s.replicaSets = list[appsv1.ReplicaSetList](ctx, at.cluster, client.InNamespace(at.namespace),
			client.MatchingLabels(s.controller.Spec.Selector.MatchLabels)).Items
		s.pods = podsOf(ctx, at.cluster, s.controller)
	}
	if o := s.operator; o != nil && o.Status.AvailableReplicas < ptr.Deref(o.Spec.Replicas, 1) {
		s.operatorPods = podsOf(ctx, at.cluster, o)
	}
	if o := s.operator; o != nil && o.Labels["olm.owner"] == "" { // OLM gives its binding another name
		s.taker = s.guest.taker(ctx, s.of)
	}
	maps.Copy(s.hidden, at.hidden)
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
func (s *session) notVisible() (kinds []string) {
	for _, c := range []*cluster{s.guest, s.management} {
		if c != nil {
			for kind := range c.hidden {
				kinds = append(kinds, kind+c.of)
			}
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
