// Package hook contains the changes to assets that depend on the state of the cluster. A hook is
// one value with the change, or the rollout inputs, and the informers whose events must repeat it.
// Its callers are the driver plugins, which choose hooks, and pkg/operator, which applies them.
package hook

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"
	"github.com/openshift/library-go/pkg/operator/deploymentcontroller"
)

// Workload changes the Deployment of a driver's controllers or the DaemonSet of its node plugins. A
// nil function changes nothing.
type Workload struct {
	Deployment deploymentcontroller.DeploymentHookFunc
	DaemonSet  csidrivernodeservicecontroller.DaemonSetHookFunc
	// Informers trigger a sync, which repeats the change.
	Informers []factory.Informer
	// RolloutInputs are the objects whose changes roll the workload out; see RollOutDeployment.
	RolloutInputs []RolloutInput
}

// Pods returns the hook that changes the pods of both workloads.
func Pods(change func(*corev1.PodSpec) error) Workload {
	return Workload{
		Deployment: func(_ *opv1.OperatorSpec, d *appsv1.Deployment) error {
			return change(&d.Spec.Template.Spec)
		},
		DaemonSet: func(_ *opv1.OperatorSpec, d *appsv1.DaemonSet) error {
			return change(&d.Spec.Template.Spec)
		},
	}
}

// Arguments adds arguments to the container with a name, if any. It calls arguments in each sync.
func Arguments(container string, arguments func() []string) Workload {
	return Pods(func(pod *corev1.PodSpec) error {
		for i := range pod.Containers {
			if one := &pod.Containers[i]; one.Name == container {
				one.Args = append(one.Args, arguments()...)
			}
		}
		return nil
	})
}

// DeploymentHooks returns the arguments for library-go's Deployment controller.
func DeploymentHooks(
	hooks []Workload,
) ([]deploymentcontroller.DeploymentHookFunc, []factory.Informer) {
	var changes []deploymentcontroller.DeploymentHookFunc
	for _, h := range hooks {
		if h.Deployment != nil {
			changes = append(changes, h.Deployment)
		}
	}
	return changes, informers(hooks)
}

// DaemonSetHooks returns the arguments for library-go's node service controller.
func DaemonSetHooks(
	hooks []Workload,
) ([]csidrivernodeservicecontroller.DaemonSetHookFunc, []factory.Informer) {
	var changes []csidrivernodeservicecontroller.DaemonSetHookFunc
	for _, h := range hooks {
		if h.DaemonSet != nil {
			changes = append(changes, h.DaemonSet)
		}
	}
	return changes, informers(hooks)
}

// informers returns each informer once. A duplicate would deliver each event twice.
func informers(hooks []Workload) []factory.Informer {
	all := sets.New[factory.Informer]()
	for _, h := range hooks {
		all.Insert(h.Informers...)
	}
	return all.UnsortedList()
}
