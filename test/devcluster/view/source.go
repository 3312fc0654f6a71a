package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	opv1 "github.com/openshift/api/operator/v1"
	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"
)

// Source reads the state of drivers.
type Source struct {
	drivers             []Driver
	operators           operatorclient.Interface
	cluster, management kubernetes.Interface
}

// NewSource returns a Source of the drivers in a cluster. Their Deployments in the control plane of
// a guest cluster are read with the configuration of the management cluster.
func NewSource(drivers []Driver, cluster, management *rest.Config) (*Source, error) {
	s := &Source{drivers: drivers}
	var err error
	if s.operators, err = operatorclient.NewForConfig(cluster); err == nil {
		s.cluster, err = kubernetes.NewForConfig(cluster)
	}
	if err == nil {
		s.management, err = kubernetes.NewForConfig(management)
	}
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return s, nil
}

// Snapshot reads the state of all drivers.
func (s *Source) Snapshot(ctx context.Context) (Snapshot, error) {
	now := make(Snapshot, 0, len(s.drivers))
	for _, driver := range s.drivers {
		state := State{Driver: driver}
		for _, read := range []func(context.Context, *State) error{
			s.readConditions, s.readController, s.readWorkloads, s.readClasses,
		} {
			if err := read(ctx, &state); err != nil {
				return nil, fmt.Errorf("reading the state of %s: %w", driver.Title, err)
			}
		}
		now = append(now, state)
	}
	return now, nil
}

func (s *Source) readConditions(ctx context.Context, now *State) error {
	d, err := s.operators.OperatorV1().ClusterCSIDrivers().Get(ctx, now.Driver.Name,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	now.Conditions = d.Status.Conditions
	slices.SortFunc(now.Conditions,
		func(a, b opv1.OperatorCondition) int { return cmp.Compare(a.Type, b.Type) })
	return nil
}

// readController reads the one Deployment of the driver among others in a control plane namespace.
func (s *Source) readController(ctx context.Context, now *State) error {
	if !now.Driver.isHosted() {
		return nil
	}
	controllers := s.management.AppsV1().Deployments(now.Driver.ControlPlaneNamespace)
	controller, err := controllers.Get(ctx, now.Driver.Controller, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	now.Workloads = append(now.Workloads, deployment(controller, management))
	return nil
}

func (s *Source) readWorkloads(ctx context.Context, now *State) error {
	cluster := ""
	if now.Driver.isHosted() {
		cluster = guest
	}
	apps := s.cluster.AppsV1()
	deployments, err := apps.Deployments(now.Driver.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range deployments.Items {
		now.Workloads = append(now.Workloads, deployment(&deployments.Items[i], cluster))
	}
	daemonSets, err := apps.DaemonSets(now.Driver.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range daemonSets.Items {
		now.Workloads = append(now.Workloads, daemonSet(&daemonSets.Items[i], cluster))
	}
	return nil
}

func (s *Source) readClasses(ctx context.Context, now *State) error {
	classes, err := s.cluster.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	now.Classes = slices.DeleteFunc(classes.Items, func(c storagev1.StorageClass) bool {
		return c.Provisioner != now.Driver.Name
	})
	return nil
}

func deployment(d *appsv1.Deployment, cluster string) Workload {
	desired := int32(1)
	if d.Spec.Replicas != nil {
		desired = *d.Spec.Replicas
	}
	return Workload{
		Kind: "Deployment", Name: d.Name, Ready: d.Status.ReadyReplicas, Desired: desired,
		Cluster: cluster,
		RolledOut: d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas == desired &&
			d.Status.UpdatedReplicas == desired && d.Status.AvailableReplicas == desired,
	}
}

func daemonSet(d *appsv1.DaemonSet, cluster string) Workload {
	desired := d.Status.DesiredNumberScheduled
	return Workload{
		Kind: "DaemonSet", Name: d.Name, Ready: d.Status.NumberReady, Desired: desired, Cluster: cluster,
		RolledOut: d.Status.ObservedGeneration >= d.Generation && desired > 0 &&
			d.Status.UpdatedNumberScheduled == desired && d.Status.NumberAvailable == desired,
	}
}
