package cluster

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	coordination "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// playSidecars renews the Leases of the sidecars of all drivers until ctx ends: pods of simulated
// nodes run no programs. It tries again while an API server is away.
func (c *Cluster) playSidecars(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, s := range c.environments {
			for _, o := range s.Operators {
				namespace := o.OperandNamespace
				if s.isHosted() {
					namespace = o.Namespace
				}
				_ = renewLeases(ctx, s.control.Client(), namespace, s.target.Client(), o)
			}
		}
	}, 5*time.Second)
}

// renewLeases gives each Lease of the sidecars of a driver to a pod of its controller. Without a
// pod it changes nothing.
func renewLeases(ctx context.Context, control kubernetes.Interface, namespace string,
	target kubernetes.Interface, o fixtures.Operator,
) error {
	controller, err := control.AppsV1().Deployments(namespace).
		Get(ctx, o.Workloads[0], metav1.GetOptions{})
	if err != nil {
		return err
	}
	pods, err := control.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: metav1.FormatLabelSelector(controller.Spec.Selector),
	})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil
	})
	for _, container := range controller.Spec.Template.Spec.Containers {
		if i < 0 || !slices.Contains(container.Args, "--leader-election") {
			continue
		}
		sidecar := diagnosis.Sidecar(strings.TrimPrefix(container.Name, "csi-"))
		lease := coordination.Lease(sidecar.Lease(o.ClusterCSIDriver), o.OperandNamespace).
			WithSpec(coordination.LeaseSpec().WithHolderIdentity(pods.Items[i].Name).
				WithLeaseDurationSeconds(60).WithRenewTime(metav1.NowMicro()))
		_, err := target.CoordinationV1().Leases(o.OperandNamespace).
			Apply(ctx, lease, metav1.ApplyOptions{FieldManager: "devcluster", Force: true})
		if err != nil {
			return err
		}
	}
	return nil
}
