package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	storageinformers "k8s.io/client-go/informers/storage/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/csi/csistorageclasscontroller"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/storageclass"
)

const classResync = 10 * time.Minute

// storageClass returns the controller of the StorageClasses among the driver's assets. It honours
// spec.storageClassState of the ClusterCSIDriver; the administrator decides which StorageClass is
// the default. A driver whose StorageClasses depend on the cloud has no such assets.
//
// It replaces library-go's controller, which deletes a StorageClass before the API server has
// accepted its replacement.
func (d *driver) storageClass(name string) (factory.Controller, error) {
	assets := d.bundle.Select(bundle.StorageClass, flavour.Guest)
	if len(assets) == 0 {
		return nil, nil
	}
	var classes []*storagev1.StorageClass
	for _, asset := range assets {
		class, err := decode[storagev1.StorageClass](asset)
		if err != nil {
			return nil, err
		}
		classes = append(classes, class)
	}
	kube := d.cluster.Side(flavour.Guest).Kube
	reconciler := storageclass.NewReconciler(kube, d.classInformer().Lister(), d.events)
	return factory.New().
		WithInformers(d.choices.Informers()...).
		WithInformers(d.operator.Informer(), d.classInformer().Informer()).
		WithSync(d.cluster.Configuring(func(ctx context.Context, _ factory.SyncContext) error {
			return d.syncClasses(ctx, reconciler, classes)
		})).
		WithSyncDegradedOnError(d.operator).
		ResyncEvery(classResync).
		ToController(name, d.events), nil
}

func (d *driver) syncClasses(
	ctx context.Context, reconciler *storageclass.Reconciler, classes []*storagev1.StorageClass,
) error {
	state, err := d.cluster.StorageClassState()
	if err != nil {
		return err
	}
	config, err := d.choices.Current()
	if err != nil && state != opv1.RemovedStorageClass {
		return nil // the condition ...UserConfigValid reports it
	}
	reconciler.OwnsDefault = config.OwnsDefault()
	var errs []error
	for _, class := range classes {
		switch state {
		case opv1.ManagedStorageClass:
			err = d.reconcileClass(ctx, reconciler, config, class)
		case opv1.RemovedStorageClass:
			err = d.removeClass(ctx, class)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("StorageClass %s: %w", class.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (d *driver) reconcileClass(
	ctx context.Context, reconciler *storageclass.Reconciler, config *choice.Config,
	class *storagev1.StorageClass,
) error {
	required := class.DeepCopy()
	lister := d.classInformer().Lister()
	if err := csistorageclasscontroller.SetDefaultStorageClass(lister, required); err != nil {
		return fmt.Errorf("deciding whether it is the default: %w", err)
	}
	config.ClassOf("").Apply(required)
	config.MarkDefault(required)
	return reconciler.Reconcile(ctx, required, func(*storagev1.StorageClass) bool { return true })
}

func (d *driver) removeClass(ctx context.Context, class *storagev1.StorageClass) error {
	if _, err := d.classInformer().Lister().Get(class.Name); apierrors.IsNotFound(err) {
		return nil
	}
	client := d.cluster.Side(flavour.Guest).Kube.StorageV1()
	_, _, err := resourceapply.DeleteStorageClass(ctx, client, d.events, class)
	return err
}

func (d *driver) classInformer() storageinformers.StorageClassInformer {
	return d.cluster.Side(flavour.Guest).Informers.InformersFor("").Storage().V1().StorageClasses()
}
