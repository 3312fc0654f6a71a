// Package hook has the changes that operators make to generated objects at run time, for what is known only in the cluster.
// A hook is one value with the change, or the inputs that roll pods out, and the informers whose events must repeat it, so that
// neither can be forgotten.
// Its callers are the core, which applies them, and the driver plugins, which choose them.
package hook

import (
	storagev1 "k8s.io/api/storage/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/csi/csidrivernodeservicecontroller"
	"github.com/openshift/library-go/pkg/operator/deploymentcontroller"
)

// Workload changes the Deployment of a driver's controllers or the DaemonSet of its node plugins. A nil change is none.
type Workload struct {
	Deployment deploymentcontroller.DeploymentHookFunc
	DaemonSet  csidrivernodeservicecontroller.DaemonSetHookFunc
	// Informers tell when the change must be made again.
	Informers []factory.Informer
	// Inputs are the objects whose content rolls the workload out: see RollOutDeployment.
	RolloutInputs []RolloutInput
}

// CSIDriver changes the CSIDriver object before it is applied.
type CSIDriver func(*storagev1.CSIDriver) error

// DeploymentHooks splits hooks into what library-go's Deployment controller takes.
func DeploymentHooks(hooks []Workload) ([]deploymentcontroller.DeploymentHookFunc, []factory.Informer) {
	var changes []deploymentcontroller.DeploymentHookFunc
	for _, h := range hooks {
		if h.Deployment != nil {
			changes = append(changes, h.Deployment)
		}
	}
	return changes, informers(hooks)
}

// DaemonSetHooks splits hooks into what library-go's node service controller takes.
func DaemonSetHooks(hooks []Workload) ([]csidrivernodeservicecontroller.DaemonSetHookFunc, []factory.Informer) {
	var changes []csidrivernodeservicecontroller.DaemonSetHookFunc
	for _, h := range hooks {
		if h.DaemonSet != nil {
			changes = append(changes, h.DaemonSet)
		}
	}
	return changes, informers(hooks)
}

// informers returns each informer once: registered twice it would deliver each event twice.
func informers(hooks []Workload) []factory.Informer {
	var ret []factory.Informer
	seen := map[factory.Informer]bool{}
	for _, h := range hooks {
		for _, informer := range h.Informers {
			if !seen[informer] {
				seen[informer] = true
				ret = append(ret, informer)
			}
		}
	}
	return ret
}
