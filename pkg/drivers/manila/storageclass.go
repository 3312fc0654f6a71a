package manila

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/storageclass"
)

// storageClassController reconciles one StorageClass for each share type. It subscribes to the
// cloud probe. It does not delete the class of a removed share type, because volumes of it may
// exist, and the removal may be an error of the cloud.
type storageClassController struct {
	factory.Controller
	cluster    *cluster.Cluster
	kube       kubernetes.Interface
	classes    storagelisters.StorageClassLister
	reconciler *storageclass.Reconciler
	events     events.Recorder
	wake       func()
	// warned contains the last warnings by reason. Only sync accesses it.
	warned map[string]string

	mu    sync.Mutex
	types []string
	// listed is true if a probe has listed the share types.
	listed bool
}

const (
	servedType = "ManilaShareTypesServed"
	// servedManager is the field manager of the condition. It must never change.
	servedManager = "Manila-ShareTypes"
)

func newStorageClassController(s plugin.Dependencies) *storageClassController {
	guest := s.Cluster.Side(flavour.Guest)
	classes := guest.Informers.InformersFor("").Storage().V1().StorageClasses()
	syncCtx := factory.NewSyncContext("ManilaStorageClassController", s.Events)
	c := &storageClassController{
		cluster: s.Cluster, kube: guest.Kube, classes: classes.Lister(), events: s.Events,
		reconciler: storageclass.NewReconciler(guest.Kube, classes.Lister(), s.Events),
		warned:     map[string]string{},
		wake:       func() { syncCtx.Queue().Add(factory.DefaultQueueKey) },
	}
	c.Controller = factory.New().
		WithSyncContext(syncCtx).
		WithInformers(s.Cluster.Operator.Informer()).
		WithFilteredEventsInformers(hasOurProvisioner, classes.Informer()).
		WithSync(cluster.WhileManaged(s.Cluster.Operator, c.sync)).
		WithSyncDegradedOnError(s.Cluster.Operator).
		ResyncEvery(resync).
		ToController("ManilaStorageClassController", s.Events)
	return c
}

// hasOurProvisioner selects the events of classes of the driver, and of deleted classes.
func hasOurProvisioner(obj any) bool {
	class, ok := obj.(*storagev1.StorageClass)
	return !ok || class.Provisioner == string(Name)
}

// setShareTypes receives the results of the cloud probe. It triggers the controller at the first
// list of share types, and if they changed. A probe that did not reach Manila changes nothing.
func (c *storageClassController) setShareTypes(result cloudprobe.Result[[]string]) {
	if result.Err != nil || result.Reason == reasonNoManila {
		return
	}
	types := slices.Compact(slices.Sorted(slices.Values(result.Found)))
	c.mu.Lock()
	changed := !c.listed || !slices.Equal(types, c.types)
	c.types, c.listed = types, true
	c.mu.Unlock()
	if changed {
		c.wake()
	}
}

func (c *storageClassController) sync(ctx context.Context, _ factory.SyncContext) error {
	state, err := c.cluster.StorageClassState(string(Name))
	if err != nil {
		return err
	}
	listed, err := c.classes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing StorageClasses: %w", err)
	}
	existing := byName(listed)
	switch state {
	case opv1.ManagedStorageClass:
		return c.reconcile(ctx, existing)
	case opv1.RemovedStorageClass:
		err = c.remove(ctx, existing)
	}
	return errors.Join(err, c.report(ctx, nil)) // the administrator wants no StorageClasses
}

// reconcile reconciles the StorageClass of each share type; failures are independent.
func (c *storageClassController) reconcile(
	ctx context.Context, existing map[string]*storagev1.StorageClass,
) error {
	c.mu.Lock()
	names, listed := classNames(c.types, existing), c.listed
	c.mu.Unlock()
	room := maxClasses - countOurs(existing)
	var failed, taken, ignored []string
	for _, shareType := range slices.Sorted(maps.Keys(names)) {
		name := names[shareType]
		class := existing[name]
		if class == nil {
			if fault := unusable(shareType, room); fault != "" {
				ignored = append(ignored,
					fmt.Sprintf("share type %q gets no StorageClass: %s", shareType, fault))
				continue
			}
			room--
		}
		if class != nil && !isClassOf(class, shareType) {
			taken = append(taken, fmt.Sprintf("share type %q gets no StorageClass: another StorageClass "+
				"has the name %s. Delete that StorageClass, or create one for the share type yourself",
				shareType, name))
			continue
		}
		owns := func(class *storagev1.StorageClass) bool { return isClassOf(class, shareType) }
		if err := c.reconciler.Reconcile(ctx, c.required(name, shareType), owns); err != nil {
			failed = append(failed,
				fmt.Sprintf("StorageClass %s of share type %q: %v", name, shareType, err))
		}
	}
	c.warn("StorageClassNameTaken", taken)
	c.warn("ShareTypeIgnored", ignored)
	var err error
	if listed {
		gone := c.gone(existing, names)
		c.warn("ShareTypeGone", gone)
		err = c.report(ctx, slices.Concat(gone, taken, ignored))
	}
	if len(failed) > 0 {
		err = errors.Join(errors.New(joined(failed, maxTold, "\n")), err)
	}
	return err
}

// gone returns a fault for each class that an operator created for a share type that Manila does
// not list.
func (c *storageClassController) gone(
	existing map[string]*storagev1.StorageClass, names map[string]string,
) []string {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		shareType := existing[name].Parameters[typeParameter]
		if _, offered := names[shareType]; !offered && c.createdByOperator(existing[name]) {
			faults = append(faults, fmt.Sprintf("share type %q is gone, so Manila creates no shares for "+
				"StorageClass %s. Ask the administrator of the cloud for the share type, or delete the "+
				"StorageClass", shareType, name))
		}
	}
	return faults
}

// report writes the condition about share types without a class, and classes without a share type.
func (c *storageClassController) report(ctx context.Context, faults []string) error {
	served := cluster.NewCondition(servedType, opv1.ConditionTrue, "AsExpected",
		"No share type is gone or without a StorageClass")
	if len(faults) > 0 {
		served.WithStatus(opv1.ConditionFalse).WithReason("PartlyServed").
			WithMessage(joined(faults, maxListed, "; "))
	}
	return cluster.ApplyConditions(ctx, c.cluster.Operator, servedManager, served)
}

// warn records an event about a problem that only an administrator can fix. It is not an error,
// because the driver and the other share types are not affected.
func (c *storageClassController) warn(reason string, faults []string) {
	message := joined(faults, maxTold, "; ")
	if message != "" && message != c.warned[reason] {
		c.events.Warning(reason, message)
	}
	c.warned[reason] = message
}

// remove deletes the classes that this operator or an earlier release created, including those of
// removed share types.
func (c *storageClassController) remove(
	ctx context.Context, existing map[string]*storagev1.StorageClass,
) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		class := existing[name]
		if !c.createdByOperator(class) {
			continue
		}
		_, _, err := resourceapply.DeleteStorageClass(ctx, c.kube.StorageV1(), c.events, class)
		if err != nil {
			errs = append(errs, fmt.Errorf("deleting StorageClass %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// createdByOperator returns true if an operator created the class, judged by its name and by the
// Secret in its parameters. The rest depends on the release, and the administrator may have changed
// it.
func (c *storageClassController) createdByOperator(class *storagev1.StorageClass) bool {
	shareType := class.Parameters[typeParameter]
	return isClassOf(class, shareType) &&
		(class.Name == plainName(shareType) || class.Name == hashedName(shareType)) &&
		class.Parameters["csi.storage.k8s.io/provisioner-secret-name"] == loginSecret &&
		class.Parameters["csi.storage.k8s.io/provisioner-secret-namespace"] == c.cluster.Namespaces.Guest
}

// required returns the class of a share type. It sets every field that the API server would
// default, so that it can be compared.
func (c *storageClassController) required(name, shareType string) *storagev1.StorageClass {
	parameters := map[string]string{typeParameter: shareType}
	for _, call := range []string{"provisioner", "controller-expand", "node-stage", "node-publish"} {
		parameters["csi.storage.k8s.io/"+call+"-secret-name"] = loginSecret
		parameters["csi.storage.k8s.io/"+call+"-secret-namespace"] = c.cluster.Namespaces.Guest
	}
	return &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: name},
		Provisioner:          string(Name),
		Parameters:           parameters,
		ReclaimPolicy:        new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    new(storagev1.VolumeBindingImmediate),
		AllowVolumeExpansion: new(true),
	}
}
