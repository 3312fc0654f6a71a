package kubectl

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/explain"
)

// controlPlane is the cluster and the namespace of the controllers of a driver and of its operator.
type controlPlane struct {
	*cluster

	namespace, operator string
}

// place returns where the control plane of a driver is; nil if it is not visible.
func (s *session) place(ctx context.Context, d driver) (*controlPlane, error) {
	if s.management != nil {
		return &controlPlane{s.management, s.hostedControl, s.hostedControl}, nil
	}
	infrastructure := &configv1.Infrastructure{}
	_, err := s.guest.get(ctx, "", "cluster", infrastructure)
	if err != nil || infrastructure.Status.ControlPlaneTopology == configv1.ExternalTopologyMode {
		return nil, err
	}
	return &controlPlane{s.guest, d.namespace, flavour.DefaultNamespace}, nil
}

// system reads the objects of a driver; nil if it has no ClusterCSIDriver.
func (s *session) system(ctx context.Context, d driver) (*explain.System, error) {
	sys := &explain.System{
		Now: s.clock.Now(), Title: d.title, Driver: &opv1.ClusterCSIDriver{},
		Workloads: 1 + len(d.nodes), Hidden: map[string]bool{},
		Leases:   map[explain.Sidecar]*coordinationv1.Lease{},
		Failures: map[string]string{},
	}
	found, err := s.guest.get(ctx, "", d.name, sys.Driver)
	if err != nil || !found {
		return nil, err
	}
	if err := s.readControlPlane(ctx, d, sys); err != nil {
		return nil, err
	}
	for _, name := range d.nodes {
		var one appsv1.DaemonSet
		if found, err := s.guest.get(ctx, d.namespace, name, &one); err != nil {
			return nil, err
		} else if found {
			sys.Nodes = append(sys.Nodes, one)
		}
	}
	for _, sidecar := range d.sidecars {
		sys.Leases[sidecar], err = find(ctx, s.guest, d.namespace, sidecar.Lease(d.name),
			&coordinationv1.Lease{})
		if err != nil {
			return nil, err
		}
	}
	if err := s.addPods(ctx, d, sys); err != nil {
		return nil, err
	}
	for kind := range s.guest.hidden {
		sys.Hidden[kind] = true
	}
	return sys, nil
}

// addPods adds why DaemonSets lack pods, and whether the namespace of the driver is gone. It sends
// no request while all is well.
func (s *session) addPods(ctx context.Context, d driver, sys *explain.System) error {
	if len(sys.Nodes) == 0 {
		namespace, err := find(ctx, s.guest, "", d.namespace, &corev1.Namespace{})
		if err != nil || s.guest.hidden["Namespaces"] {
			return err
		}
		if namespace == nil || namespace.DeletionTimestamp != nil {
			sys.NamespaceGone = d.namespace
		}
	}
	for i := range sys.Nodes {
		one := &sys.Nodes[i]
		if one.Status.NumberAvailable >= one.Status.DesiredNumberScheduled {
			continue
		}
		pods, err := s.podsOf(ctx, s.guest, one, one.Spec.Selector)
		if err != nil {
			return err
		}
		sys.NodePods = append(sys.NodePods, pods...)
		if len(pods) < int(one.Status.DesiredNumberScheduled) {
			events, err := s.events(ctx, s.guest, one)
			if err != nil {
				return err
			}
			sys.Failures[one.Name] = explain.FailedCreate(events)
		}
	}
	return nil
}

// podsOf returns the pods that the selector of a workload selects.
func (s *session) podsOf(
	ctx context.Context, from *cluster, workload client.Object, selector *metav1.LabelSelector,
) ([]corev1.Pod, error) {
	labels, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	err = from.list(ctx, &pods, client.InNamespace(workload.GetNamespace()),
		client.MatchingLabelsSelector{Selector: labels})
	return pods.Items, err
}

// readControlPlane reads the Deployments of the driver and of its operator.
func (s *session) readControlPlane(ctx context.Context, d driver, sys *explain.System) error {
	at, err := s.place(ctx, d)
	if err != nil {
		return err
	}
	if at == nil {
		sys.Hidden[explain.HiddenControlPlane] = true
		s.guest.hidden[explain.HiddenControlPlane+" (--management-kubeconfig)"] = true
		return nil
	}
	sys.OperatorName = at.operator + "/" + d.operator
	sys.Operator, err = find(ctx, at.cluster, at.operator, d.operator, &appsv1.Deployment{})
	if err != nil {
		return err
	}
	sys.Controller, err = find(ctx, at.cluster, at.namespace, d.controller, &appsv1.Deployment{})
	if err != nil {
		return err
	}
	if s.management != nil && sys.Operator == nil && sys.Controller == nil {
		if err := s.checkHosted(ctx); err != nil {
			return err
		}
	}
	sys.OperatorLease, err = find(ctx, at.cluster, at.operator, d.lease, &coordinationv1.Lease{})
	if err != nil {
		return err
	}
	if sys.Operator == nil && at.hidden["Infrastructures"] { // it may be a guest cluster
		sys.Hidden[explain.HiddenControlPlane] = true
	}
	if sys.Controller != nil {
		var sets appsv1.ReplicaSetList
		if err := at.list(ctx, &sets, client.InNamespace(at.namespace),
			client.MatchingLabels(sys.Controller.Spec.Selector.MatchLabels)); err != nil {
			return err
		}
		sys.ReplicaSets = sets.Items
		sys.Pods, err = s.podsOf(ctx, at.cluster, sys.Controller, sys.Controller.Spec.Selector)
		if err != nil {
			return err
		}
	}
	if o := sys.Operator; o != nil && o.Status.AvailableReplicas < ptr.Deref(o.Spec.Replicas, 1) {
		sys.OperatorPods, err = s.podsOf(ctx, at.cluster, o, o.Spec.Selector)
		if err != nil {
			return err
		}
	}
	for kind := range at.hidden {
		sys.Hidden[kind] = true
	}
	return nil
}

// checkHosted returns an error if there is no hosted control plane where a flag says it is.
func (s *session) checkHosted(ctx context.Context) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(hostedControlPlane())
	err := s.management.list(ctx, list, client.InNamespace(s.hostedControl))
	if err != nil || len(list.Items) > 0 || s.management.hidden["HostedControlPlanes"] {
		return err
	}
	return usage("namespace %s of the management cluster contains no HostedControlPlane. Check "+
		"--management-namespace: kubectl get hostedcontrolplanes --all-namespaces", s.hostedControl)
}

// notVisible returns the kinds that could not be read in any cluster.
func (s *session) notVisible() []string {
	kinds := s.guest.notVisible()
	if s.management != nil {
		kinds = append(kinds, s.management.notVisible()...)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}
