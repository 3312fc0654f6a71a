package hook

import (
	appsv1 "k8s.io/api/apps/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	controllerservice "github.com/openshift/library-go/pkg/operator/csi/csidrivercontrollerservicecontroller"
	"github.com/openshift/library-go/pkg/operator/deploymentcontroller"
)

// Alternative is a manifest that replaces the manifest of a workload.
type Alternative struct {
	// Manifest returns the manifest, nil while nothing is replaced.
	Manifest func() []byte
	// Informer triggers a sync when the result of Manifest may change.
	Informer factory.Informer
}

// Deployment returns the hook that replaces the manifest of a Deployment. It precedes the hooks of
// Manifest, which fill the placeholders, and needs the hook Trigger.
func (a Alternative) Deployment() deploymentcontroller.ManifestHookFunc {
	return func(_ *opv1.OperatorSpec, manifest []byte) ([]byte, error) {
		if other := a.Manifest(); other != nil {
			return other, nil
		}
		return manifest, nil
	}
}

// Trigger returns the hook that changes nothing and repeats the other hooks.
func (a Alternative) Trigger() Workload {
	return Workload{Informers: []factory.Informer{a.Informer}}
}

// DaemonSet returns the hook that replaces a DaemonSet. It precedes all other hooks. library-go's
// controller fills only the placeholders of the manifest that it knows, so the hook fills those of
// the alternative.
func (a Alternative) DaemonSet() Workload {
	hook := a.Trigger()
	hook.DaemonSet = func(spec *opv1.OperatorSpec, daemonSet *appsv1.DaemonSet) error {
		other := a.Manifest()
		if other == nil {
			return nil
		}
		manifest, err := controllerservice.WithServingInfo()(spec, fillLogLevel(spec, other))
		if err != nil {
			return err
		}
		alternative, err := decode[appsv1.DaemonSet]("DaemonSet", manifest)
		if err != nil {
			return err
		}
		*daemonSet = alternative
		return nil
	}
	return hook
}
