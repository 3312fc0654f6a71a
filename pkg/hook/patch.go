package hook

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	controllerservice "github.com/openshift/library-go/pkg/operator/csi/csidrivercontrollerservicecontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// Patch returns the hook that applies a strategic merge patch, and fills its late placeholders. It
// precedes all other hooks. patch returns nil while nothing is to be changed. Events of the
// informer repeat the hook.
func Patch(c *cluster.Cluster, patch func() []byte, informer factory.Informer) Workload {
	return Workload{
		Deployment: func(spec *opv1.OperatorSpec, d *appsv1.Deployment) error {
			return patchWorkload(c, spec, patch(), d)
		},
		DaemonSet: func(spec *opv1.OperatorSpec, d *appsv1.DaemonSet) error {
			return patchWorkload(c, spec, patch(), d)
		},
		Informers: []factory.Informer{informer},
	}
}

func patchWorkload[T any](
	c *cluster.Cluster, spec *opv1.OperatorSpec, patch []byte, workload *T,
) error {
	if patch == nil {
		return nil
	}
	patch, err := fill(c, spec, patch)
	if err != nil {
		return err
	}
	if patch, err = controllerservice.WithServingInfo()(spec, patch); err != nil {
		return err
	}
	object, err := json.Marshal(workload)
	if err != nil {
		return fmt.Errorf("encoding the workload: %w", err)
	}
	patched, err := bundle.Patched(object, patch, *workload)
	if err != nil {
		return err
	}
	decoded, err := decode[T]("workload", patched)
	if err == nil {
		*workload = decoded
	}
	return err
}
