package manila

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
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
	choices    *plugin.Choices
	reconciler *storageclass.Reconciler
	events     events.Recorder
	wake       func()
	// warned contains the last warnings by reason. Only sync accesses it.
	warned map[string]string

	mu    sync.Mutex
	types []openstack.ShareType
	// listed is true if a probe has listed the share types.
	listed bool
}

const (
	servedType = "ManilaShareTypesServed"
	// servedManager is the field manager of the condition. It must never change.
	servedManager = "Manila-ShareTypes"
)

func newStorageClassController(
	s plugin.Dependencies, choices *plugin.Choices,
) *storageClassController {
	guest := s.Cluster.Side(flavour.Guest)
	classes := guest.Informers.InformersFor("").Storage().V1().StorageClasses()
	syncCtx := factory.NewSyncContext("ManilaStorageClassController", s.Events)
	c := &storageClassController{
		cluster: s.Cluster, kube: guest.Kube, classes: classes.Lister(), events: s.Events,
		choices:    choices,
		reconciler: storageclass.NewReconciler(guest.Kube, classes.Lister(), s.Events),
		warned:     map[string]string{},
		wake:       func() { syncCtx.Queue().Add(factory.DefaultQueueKey) },
	}
	c.Controller = factory.New().
		WithSyncContext(syncCtx).
		WithInformers(s.Cluster.Operator.Informer(), choices.Informer).
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
func (c *storageClassController) setShareTypes(result cloudprobe.Result[[]openstack.ShareType]) {
	if result.Err != nil || result.Reason == reasonNoManila {
		return
	}
	compare := func(a, b openstack.ShareType) int { return strings.Compare(a.Name, b.Name) }
	same := func(a, b openstack.ShareType) bool { return a.Name == b.Name }
	types := slices.CompactFunc(slices.SortedStableFunc(slices.Values(result.Found), compare), same)
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
	config, err := c.choices.Current()
	if err != nil {
		return nil //nolint:nilerr // the condition ManilaUserConfigValid reports it
	}
	listed, err := c.classes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing StorageClasses: %w", err)
	}
	existing := byName(listed)
	switch state {
	case opv1.ManagedStorageClass:
		return c.reconcile(ctx, config, existing)
	case opv1.RemovedStorageClass:
		err = c.remove(ctx, config, existing)
	}
	return errors.Join(err, c.report(ctx, nil)) // the administrator wants no StorageClasses
}

// reconcile reconciles the StorageClasses of the share types; failures are independent.
func (c *storageClassController) reconcile(
	ctx context.Context, config *choice.Config, existing map[string]*storagev1.StorageClass,
) error {
	types, listed := c.shareTypes()
	names := classNames(slices.Collect(maps.Keys(types)), existing)
	room := maxClasses - countOurs(existing)
	c.reconciler.OwnsDefault = config.OwnsDefault()
	var failed []string
	faults := map[string][]string{}
	for _, w := range c.wanted(config, types, names) {
		class := existing[w.name]
		if class != nil && !isClassOf(class, w.shareType.Name) {
			faults[reasonNameTaken] = append(faults[reasonNameTaken], fmt.Sprintf(
				"share type %q gets no StorageClass: another StorageClass has the name %s. Delete that "+
					"StorageClass, or create one for the share type yourself", w.shareType.Name, w.name))
			continue
		}
		reason, fault := w.fault(class, room)
		if fault != "" {
			faults[reason] = append(faults[reason], fault)
		}
		switch {
		case class != nil:
		case reason == reasonIgnored, reason == reasonNoNetwork && config != nil:
			continue
		default:
			room--
		}
		owns := func(class *storagev1.StorageClass) bool { return isClassOf(class, w.shareType.Name) }
		if err := c.reconciler.Reconcile(ctx, c.required(config, w), owns); err != nil {
			failed = append(failed,
				fmt.Sprintf("StorageClass %s of share type %q: %v", w.name, w.shareType.Name, err))
		}
	}
	var err error
	if listed {
		faults[reasonGone] = c.gone(existing, names)
		err = c.tell(ctx, faults)
	}
	if len(failed) > 0 {
		err = errors.Join(errors.New(joined(failed, maxTold, "\n")), err)
	}
	return err
}

// tell records the events about the faults, and writes the condition.
func (c *storageClassController) tell(ctx context.Context, faults map[string][]string) error {
	for _, reason := range []string{reasonNameTaken, reasonIgnored, reasonNoNetwork, reasonGone} {
		c.warn(reason, faults[reason])
	}
	return c.report(ctx, slices.Concat(faults[reasonGone], faults[reasonNameTaken],
		faults[reasonIgnored], faults[reasonNoNetwork]))
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
	ctx context.Context, config *choice.Config, existing map[string]*storagev1.StorageClass,
) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		class := existing[name]
		if !c.createdByOperator(class) && !isAdditional(config, class) {
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
