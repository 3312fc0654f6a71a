package hook

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	controllerservice "github.com/openshift/library-go/pkg/operator/csi/csidrivercontrollerservicecontroller"
	"github.com/openshift/library-go/pkg/operator/deploymentcontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
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
		if left := bundle.Placeholders(manifest); len(left) > 0 {
			return fmt.Errorf("the DaemonSet stays unchanged: there is no value for the placeholders %s",
				strings.Join(left, ", "))
		}
		var alternative appsv1.DaemonSet
		if err := yaml.UnmarshalStrict(manifest, &alternative); err != nil {
			return fmt.Errorf("the DaemonSet stays unchanged: decoding its manifest: %w", err)
		}
		*daemonSet = alternative
		return nil
	}
	return hook
}
