package operator

import (
	"context"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/csi/csistorageclasscontroller"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
)

// classResync repeats what events bring about at once.
const classResync = 10 * time.Minute

// storageClasses returns the controller of the StorageClasses among the driver's assets. It obeys spec.storageClassState of the
// ClusterCSIDriver, and leaves it to the administrator which class is the default. A driver has none where its classes depend on
// the cloud.
//
// It is library-go's controller without the second watch of ClusterCSIDrivers that this needs.
func (d *driver) storageClasses() ([]factory.Controller, error) {
	assets := d.bundle.Select(bundle.StorageClass, bundle.Guest)
	if len(assets) == 0 {
		return nil, nil
	}
	var classes []*storagev1.StorageClass
	for _, asset := range assets {
		class := &storagev1.StorageClass{}
		if err := yaml.UnmarshalStrict(asset.Data, class); err != nil {
			return nil, fmt.Errorf("decoding asset %q: %w", asset.Name, err)
		}
		classes = append(classes, class)
	}
	informer := d.cluster.Side(bundle.Guest).Informers.InformersFor("").Storage().V1().StorageClasses().Informer()
	return []factory.Controller{factory.New().
		WithInformers(d.operator.Informer(), informer).
		WithSync(func(ctx context.Context, _ factory.SyncContext) error { return d.syncClasses(ctx, classes) }).
		WithSyncDegradedOnError(d.operator).
		ResyncEvery(classResync).
		ToController(d.conditionName("StorageClassController"), d.events)}, nil
}

func (d *driver) syncClasses(ctx context.Context, classes []*storagev1.StorageClass) error {
	spec, _, _, err := d.operator.GetOperatorState()
	if err != nil || spec.ManagementState != opv1.Managed {
		return err
	}
	state, err := d.cluster.StorageClassState(string(d.Name))
	if err != nil {
		return err
	}
	guest := d.cluster.Side(bundle.Guest)
	lister := guest.Informers.InformersFor("").Storage().V1().StorageClasses().Lister()
	evaluator := csistorageclasscontroller.NewStorageClassStateEvaluator(guest.Kube, nil, d.events)
	for _, class := range classes {
		if _, err := lister.Get(class.Name); state == opv1.RemovedStorageClass && apierrors.IsNotFound(err) {
			continue // library-go would send a request at each event
		}
		required := class.DeepCopy()
		if err := csistorageclasscontroller.SetDefaultStorageClass(lister, required); err != nil {
			return fmt.Errorf("deciding whether StorageClass %s is the default: %w", class.Name, err)
		}
		if err := evaluator.ApplyStorageClass(ctx, required, state); err != nil {
			return fmt.Errorf("StorageClass %s: %w", class.Name, err)
		}
	}
	return nil
}
