package kubectl

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
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
		Leases: map[explain.Sidecar]*coordinationv1.Lease{},
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
	for kind := range s.guest.hidden {
		sys.Hidden[kind] = true
	}
	return sys, nil
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
	sys.OperatorLease, err = find(ctx, at.cluster, at.operator, d.lease, &coordinationv1.Lease{})
	if err != nil {
		return err
	}
	if sys.Operator == nil && at.hidden["Infrastructures"] { // it may be a guest cluster
		sys.Hidden[explain.HiddenControlPlane] = true
	}
	if sys.Controller != nil {
		selected := client.MatchingLabels(sys.Controller.Spec.Selector.MatchLabels)
		var sets appsv1.ReplicaSetList
		var pods corev1.PodList
		if err := at.list(ctx, &sets, client.InNamespace(at.namespace), selected); err != nil {
			return err
		}
		if err := at.list(ctx, &pods, client.InNamespace(at.namespace), selected); err != nil {
			return err
		}
		sys.ReplicaSets, sys.Pods = sets.Items, pods.Items
	}
	for kind := range at.hidden {
		sys.Hidden[kind] = true
	}
	return nil
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
