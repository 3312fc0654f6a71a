// Package view reports what operators do in a cluster: conditions, workloads and StorageClasses,
// and what is missing until all drivers are ready. Package command calls it.
package view

import (
	"context"
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	opv1 "github.com/openshift/api/operator/v1"
	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
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

// State describes one or more drivers.
type State struct {
	// Lines contains a line for each object, which starts with the kind and name of the object.
	Lines []string
	// Missing lists what must change until the drivers are ready.
	Missing []string
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

// Read reads the state of all drivers. If there are several, each line starts with a driver.
func (s *Source) Read(ctx context.Context, shareTypes []string) (State, error) {
	var all State
	for _, o := range s.operators {
		state, err := s.read(ctx, o, shareTypes)
		if err != nil {
			return State{}, fmt.Errorf("reading the state of %s: %w", o.Driver, err)
		}
		title := ""
		if len(s.operators) > 1 {
			title = o.Driver + ": "
		}
		for _, line := range state.Lines {
			all.Lines = append(all.Lines, title+line)
		}
		for _, text := range state.Missing {
			all.Missing = append(all.Missing, title+text)
		}
	}
	if s.csiAddons != nil {
		if err := all.addCSIAddons(ctx, s); err != nil {
			return State{}, fmt.Errorf("reading the state of CSI-Addons: %w", err)
		}
	}
	return all, nil
}

func (s *Source) read(
	ctx context.Context, o fixtures.Operator, shareTypes []string,
) (State, error) {
	driver, err := s.drivers.OperatorV1().ClusterCSIDrivers().
		Get(ctx, o.ClusterCSIDriver, metav1.GetOptions{})
	if err != nil {
		return State{}, err
	}
	var now State
	now.addConditions(driver, len(o.Workloads))
	workloads, err := s.workloads(ctx, o)
	if err != nil {
		return State{}, err
	}
	now.Lines = append(now.Lines, workloads...)
	classes, err := s.cluster.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return State{}, err
	}
	now.addClasses(o, classes.Items, shareTypes)
	return now, nil
}

// addConditions adds the conditions of a driver, and what prevents it from being ready. A driver
// that the cloud does not offer is ready, but the devcluster waits until it is deployed.
func (s *State) addConditions(driver *opv1.ClusterCSIDriver, workloads int) {
	byType := func(a, b opv1.OperatorCondition) int { return strings.Compare(a.Type, b.Type) }
	for _, c := range slices.SortedFunc(slices.Values(driver.Status.Conditions), byType) {
		s.Lines = append(s.Lines, conditionLine(c))
	}
	findings := diagnosis.Driver(driver, workloads)
	for _, f := range findings {
		if f.Severity != diagnosis.Warning {
			s.Missing = append(s.Missing, fmt.Sprintf("%s, reason %s: %s", f.Type, f.Reason, f.Message))
		}
	}
	ready := diagnosis.Ready(findings)
	if ready.Status == opv1.ConditionUnknown || ready.Reason == diagnosis.ReasonDriverDisabled {
		s.Missing = append(s.Missing, ready.Message)
	}
}

// workloads returns a line for each workload that exists.
func (s *Source) workloads(ctx context.Context, o fixtures.Operator) ([]string, error) {
	var lines []string
	add := func(kind, name string, ready, desired int32, isCurrent bool) {
		line := fmt.Sprintf("%s %s %d/%d", kind, name, ready, desired)
		if !isCurrent {
			line += " rolling out"
		}
		lines = append(lines, line)
	}
	namespace := o.OperandNamespace
	if s.isHosted {
		namespace = o.Namespace
	}
	d, err := s.control.AppsV1().Deployments(namespace).Get(ctx, o.Workloads[0], metav1.GetOptions{})
	if err == nil {
		desired := ptr.Deref(d.Spec.Replicas, 1)
		add("Deployment", d.Name, d.Status.ReadyReplicas, desired,
			d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == desired)
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	for _, name := range o.Workloads[1:] {
		d, err := s.cluster.AppsV1().DaemonSets(o.OperandNamespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			desired := d.Status.DesiredNumberScheduled
			add("DaemonSet", d.Name, d.Status.NumberReady, desired,
				d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedNumberScheduled == desired)
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return lines, nil
}

// addClasses adds the StorageClasses of a driver, and those that it must still create.
func (s *State) addClasses(
	o fixtures.Operator, classes []storagev1.StorageClass, shareTypes []string,
) {
	names, types := map[string]bool{}, map[string]bool{}
	for _, c := range classes {
		if c.Provisioner != o.ClusterCSIDriver {
			continue
		}
		line := "StorageClass " + c.Name
		if shareType := c.Parameters["type"]; shareType != "" {
			line += fmt.Sprintf(" for share type %q", shareType)
		}
		s.Lines = append(s.Lines, line)
		names[c.Name], types[c.Parameters["type"]] = true, true
	}
	for _, name := range o.StorageClasses {
		if !names[name] {
			s.Missing = append(s.Missing, "no StorageClass "+name)
		}
	}
	for _, name := range shareTypes {
		if o.ClassPerShareType && !types[name] {
			s.Missing = append(s.Missing, fmt.Sprintf("no StorageClass for share type %q", name))
		}
	}
}

func conditionLine(c opv1.OperatorCondition) string {
	line := fmt.Sprintf("condition %s=%s", c.Type, c.Status)
	if c.Reason == "AsExpected" {
		return line
	}
	if c.Reason != "" {
		line += " " + c.Reason
	}
	if c.Message != "" {
		line += ": " + c.Message
	}
	return line
}
