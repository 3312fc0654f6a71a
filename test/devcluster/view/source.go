// Package view shows what operators do in a cluster: conditions, workloads and StorageClasses, and
// what is missing until all drivers are ready. A Display prints lines, a Live is a view on a
// terminal. Package command calls it.
package view

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// Source reads the state of the drivers of an environment.
type Source struct {
	operators []fixtures.Operator
	isHosted  bool
	drivers   operatorclient.Interface
	// cluster contains the nodes of the drivers, control the operators.
	cluster, control kubernetes.Interface
	// csiAddons is nil without CSI-Addons.
	csiAddons client.Reader
}

// NewSource returns a Source of the drivers of an environment.
func NewSource(e *cluster.Environment) (*Source, error) {
	s := &Source{operators: e.Operators, isHosted: e.Guest != ""}
	var err error
	if s.drivers, err = operatorclient.NewForConfig(e.Config()); err == nil {
		s.cluster, err = kubernetes.NewForConfig(e.Config())
	}
	if err == nil {
		s.control, err = kubernetes.NewForConfig(e.ControlConfig())
	}
	if err == nil && e.CSIAddons {
		s.csiAddons, err = newCSIAddonsClient(e.Config())
	}
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return s, nil
}

// Read reads the state of all drivers.
func (s *Source) Read(ctx context.Context, shareTypes []string) (State, error) {
	var all State
	for _, o := range s.operators {
		if err := all.addDriver(ctx, s, o, shareTypes); err != nil {
			return State{}, fmt.Errorf("reading the state of %s: %w", o.Driver, err)
		}
	}
	if s.csiAddons != nil {
		if err := all.addCSIAddons(ctx, s); err != nil {
			return State{}, fmt.Errorf("reading the state of CSI-Addons: %w", err)
		}
	}
	return all, nil
}

func (s *State) addDriver(
	ctx context.Context, from *Source, o fixtures.Operator, shareTypes []string,
) error {
	driver, err := from.drivers.OperatorV1().ClusterCSIDrivers().
		Get(ctx, o.ClusterCSIDriver, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now := newDriver(o, driver)
	if now.Workloads, err = from.workloads(ctx, o); err != nil {
		return err
	}
	classes, err := from.cluster.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	missing := append(now.missing(), now.addClasses(o, classes.Items, shareTypes)...)
	for _, text := range missing {
		if len(from.operators) > 1 {
			text = o.Driver + ": " + text
		}
		s.Missing = append(s.Missing, text)
	}
	s.Drivers = append(s.Drivers, now)
	return nil
}

// workloads returns the workloads of a driver that exist.
func (s *Source) workloads(ctx context.Context, o fixtures.Operator) ([]Workload, error) {
	var found []Workload
	namespace := o.OperandNamespace
	if s.isHosted {
		namespace = o.Namespace
	}
	d, err := s.control.AppsV1().Deployments(namespace).Get(ctx, o.Workloads[0], metav1.GetOptions{})
	if err == nil {
		desired := ptr.Deref(d.Spec.Replicas, 1)
		found = append(found, Workload{
			"Deployment", d.Name, d.Status.ReadyReplicas, desired,
			d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == desired,
		})
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	for _, name := range o.Workloads[1:] {
		d, err := s.cluster.AppsV1().DaemonSets(o.OperandNamespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			desired := d.Status.DesiredNumberScheduled
			found = append(found, Workload{
				"DaemonSet", d.Name, d.Status.NumberReady, desired,
				d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedNumberScheduled == desired,
			})
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return found, nil
}

// Events returns the events of all operators, the newest first.
func (s *Source) Events(ctx context.Context) ([]Event, error) {
	var found []Event
	for _, o := range s.operators {
		namespace := o.Namespace
		if s.isHosted {
			namespace = flavour.DefaultNamespace
		}
		events, err := s.cluster.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing the events of %s: %w", o.Driver, err)
		}
		for _, e := range events.Items {
			if e.Source.Component == o.Component {
				found = append(found, Event{e.LastTimestamp.Time, o.Driver, e.Reason + " " + e.Message})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Event) int { return b.At.Compare(a.At) })
	return found, nil
}
