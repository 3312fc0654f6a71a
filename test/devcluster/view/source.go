// Package view shows what operators do in a cluster: conditions, workloads and StorageClasses, and
// what is missing until all drivers are ready. A Display prints lines, a Live is a view on a
// terminal. Package command calls it.
package view

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	opv1 "github.com/openshift/api/operator/v1"
	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
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
	driver, err := from.driver(ctx, o)
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

// driver reads the object of an operator. All kinds have the same status.
func (s *Source) driver(ctx context.Context, o fixtures.Operator) (*opv1.ClusterCSIDriver, error) {
	if !o.OnKubernetes {
		return s.drivers.OperatorV1().ClusterCSIDrivers().
			Get(ctx, o.ClusterCSIDriver, metav1.GetOptions{})
	}
	resource, group, _ := strings.Cut(o.Resource, ".")
	text, err := s.drivers.OperatorV1().RESTClient().Get().
		AbsPath("apis", group, "v1alpha1", resource, o.ClusterCSIDriver).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	driver := &opv1.ClusterCSIDriver{}
	return driver, json.Unmarshal(text, driver)
}

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

const (
	// The Deployment of the controller of CSI-Addons, see assets/csi-addons.
	csiAddonsNamespace  = "csi-addons-system"
	csiAddonsDeployment = "csi-addons-controller-manager"
	// csiAddonsSidecar is the name of the container of the sidecar in pods of drivers.
	csiAddonsSidecar = "csi-addons"
)

func newCSIAddonsClient(config *rest.Config) (client.Reader, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// addCSIAddons adds the state of CSI-Addons: its controller, and the connection to the sidecar of
// each pod of a driver.
func (s *State) addCSIAddons(ctx context.Context, from *Source) error {
	ready := int32(0)
	d, err := from.cluster.AppsV1().Deployments(csiAddonsNamespace).
		Get(ctx, csiAddonsDeployment, metav1.GetOptions{})
	if err == nil {
		ready = d.Status.ReadyReplicas
	} else if !apierrors.IsNotFound(err) {
		return err
	}
	s.Addons = append(s.Addons, fmt.Sprintf("Deployment %s %d/1", csiAddonsDeployment, ready))
	if ready == 0 {
		s.Missing = append(s.Missing, "no pod of Deployment "+csiAddonsDeployment+" is ready")
	}
	connected := map[string]bool{} // by namespace and pod, because drivers may share a namespace
	for _, o := range from.operators {
		var nodes v1alpha1.CSIAddonsNodeList
		err := from.csiAddons.List(ctx, &nodes, client.InNamespace(o.OperandNamespace))
		if err != nil {
			return fmt.Errorf("listing CSIAddonsNodes: %w", err)
		}
		s.addConnections(o.ClusterCSIDriver, nodes.Items, connected)
	}
	return s.addUnconnected(ctx, from, connected)
}

// addConnections adds the sidecars of a driver.
func (s *State) addConnections(
	driver string, nodes []v1alpha1.CSIAddonsNode, connected map[string]bool,
) {
	before := len(connected)
	for _, node := range nodes {
		if node.Spec.Driver.Name != driver {
			continue
		}
		s.Addons = append(s.Addons, fmt.Sprintf("CSIAddonsNode %s %s", node.Name, node.Status.State))
		endpoint, err := wire.ParseEndpoint(node.Spec.Driver.EndPoint)
		if err == nil && node.Status.State == v1alpha1.CSIAddonsNodeConnected {
			connected[node.Namespace+"/"+endpoint.Pod] = true
		}
	}
	if len(connected) == before {
		s.Missing = append(s.Missing, "no pod of "+driver+" has a connected sidecar of CSI-Addons")
	}
}

// addUnconnected adds the pods of drivers with a sidecar that is not connected.
func (s *State) addUnconnected(
	ctx context.Context, from *Source, connected map[string]bool,
) error {
	namespaces := sets.New[string]()
	for _, o := range from.operators {
		namespaces.Insert(o.OperandNamespace)
	}
	for _, namespace := range sets.List(namespaces) {
		pods, err := from.cluster.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing the pods of drivers: %w", err)
		}
		for _, pod := range pods.Items {
			if hasSidecar(pod) && !connected[namespace+"/"+pod.Name] {
				s.Missing = append(s.Missing,
					"no connection to the sidecar of CSI-Addons in pod "+pod.Name)
			}
		}
	}
	return nil
}

// hasSidecar returns whether a pod that stays has the sidecar.
func hasSidecar(pod corev1.Pod) bool {
	return pod.DeletionTimestamp == nil &&
		slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
			return container.Name == csiAddonsSidecar
		})
}
