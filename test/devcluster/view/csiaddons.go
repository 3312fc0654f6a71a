package view

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// The Deployment of the controller of CSI-Addons, see assets/csi-addons.
	csiAddonsNamespace  = "csi-addons-system"
	csiAddonsDeployment = "csi-addons-controller-manager"
	// csiAddonsSidecar is the name of the container of the sidecar in pods of drivers.
	csiAddonsSidecar = "csi-addons"
)

// newCSIAddonsClient returns a client for the objects of CSI-Addons.
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
	for _, o := range from.operators {
		var nodes v1alpha1.CSIAddonsNodeList
		err := from.csiAddons.List(ctx, &nodes, client.InNamespace(o.OperandNamespace))
		if err != nil {
			return fmt.Errorf("listing CSIAddonsNodes: %w", err)
		}
		pods, err := from.cluster.CoreV1().Pods(o.OperandNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing the pods of %s: %w", o.Driver, err)
		}
		s.addSidecars(o.ClusterCSIDriver, pods.Items, nodes.Items)
	}
	return nil
}

// addSidecars adds the connections to the sidecars of a driver.
func (s *State) addSidecars(
	driver string, pods []corev1.Pod, nodes []v1alpha1.CSIAddonsNode,
) {
	connected := map[string]bool{} // by pod
	for _, node := range nodes {
		if node.Spec.Driver.Name != driver {
			continue
		}
		s.Addons = append(s.Addons, fmt.Sprintf("CSIAddonsNode %s %s", node.Name, node.Status.State))
		endpoint, err := wire.ParseEndpoint(node.Spec.Driver.EndPoint)
		if err == nil && node.Status.State == v1alpha1.CSIAddonsNodeConnected {
			connected[endpoint.Pod] = true
		}
	}
	for _, pod := range pods {
		if hasSidecar(pod) && !connected[pod.Name] {
			s.Missing = append(s.Missing, "no connection to the sidecar of CSI-Addons in pod "+pod.Name)
		}
	}
	if len(connected) == 0 {
		s.Missing = append(s.Missing, "no pod of "+driver+" has a connected sidecar of CSI-Addons")
	}
}

// hasSidecar returns whether a pod that stays has the sidecar.
func hasSidecar(pod corev1.Pod) bool {
	return pod.DeletionTimestamp == nil &&
		slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
			return container.Name == csiAddonsSidecar
		})
}
