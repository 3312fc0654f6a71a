package storageclass

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// resync is the interval of syncs without an event.
const resync = 10 * time.Minute

// Driver is what a driver plugin decides about the StorageClasses of types.
type Driver interface {
	// Required returns a StorageClass, in place of the existing one or nil. It sets every field that
	// the API server would default, so that it can be compared.
	Required(wanted classes.Class, existing *storagev1.StorageClass) *storagev1.StorageClass
	// Created returns whether the operator may have created a class that has the right name.
	Created(class *storagev1.StorageClass) bool
	// Report receives the types without a class and the classes without a type, after each sync.
	Report(ctx context.Context, faults []string) error
}

// Choices are the choices of the administrator, and report their changes.
type Choices interface {
	factory.Informer
	Current() (*choice.Config, error)
	// Place returns where the choices are, for messages.
	Place() string
}

// Controller reconciles the StorageClasses of types. It does not delete the class of a removed
// type, because volumes of it may exist, and the removal may be an error of the cloud.
type Controller struct {
	factory.Controller
	classes.Names
	driver     Driver
	choices    Choices
	cluster    *cluster.Cluster
	events     events.Recorder
	kube       kubernetes.Interface
	classes    storagelisters.StorageClassLister
	reconciler *Reconciler
	// changed is notified when the types have changed.
	changed cluster.Signal
	// reconciled contains the names of the classes that the controller has reconciled. Only sync
	// accesses it.
	reconciled map[string]bool
	// warned contains the last warnings by reason. Only sync accesses it.
	warned map[string]string

	mu sync.Mutex
	// types are nil before the first call of SetTypes.
	types map[string]openstack.Type
}

// New returns a Controller that creates no class before SetTypes.
func New(
	on *cluster.Cluster, recorder events.Recorder, choices Choices, names classes.Names, driver Driver,
) *Controller {
	name := names.Service + "StorageClassController"
	guest := on.Side(flavour.Guest)
	informer := guest.Informers.InformersFor("").Storage().V1().StorageClasses()
	c := &Controller{
		Names: names, driver: driver, choices: choices, cluster: on, events: recorder,
		kube: guest.Kube, classes: informer.Lister(),
		reconciler: NewReconciler(guest.Kube, informer.Lister(), recorder),
		reconciled: map[string]bool{}, warned: map[string]string{},
	}
	c.Place = choices.Place()
	c.Controller = factory.New().
		WithInformers(on.Operator.Informer(), choices, informer.Informer(), &c.changed).
		WithSync(on.Configuring(c.sync)).
		WithSyncDegradedOnError(on.Operator).
		ResyncEvery(resync).
		ToController(name, recorder)
	return c
}

// SetTypes receives the types that OpenStack lists. It triggers the controller at the first list,
// and if the types changed.
func (c *Controller) SetTypes(found []openstack.Type) {
	types := map[string]openstack.Type{}
	for _, t := range slices.Backward(found) { // the first of two with a name counts
		types[t.Name] = t
	}
	c.mu.Lock()
	changed := c.types == nil || !maps.Equal(types, c.types)
	c.types = types
	c.mu.Unlock()
	if changed {
		c.changed.Notify()
	}
}

func (c *Controller) sync(ctx context.Context, _ factory.SyncContext) error {
	state, err := c.cluster.StorageClassState()
	if err != nil {
		return err
	}
	config, invalid := c.choices.Current()
	if invalid != nil && state != opv1.RemovedStorageClass {
		return nil // the condition ...UserConfigValid reports it
	}
	listed, err := c.classes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing StorageClasses: %w", err)
	}
	existing := classes.ByName(listed)
	switch state {
	case opv1.ManagedStorageClass:
		unknown := c.Types() == nil && (c.Kind == choice.Manila || config.NeedsVolumeTypes())
		if err = c.reconcile(ctx, config, existing); err == nil && unknown {
			err = cluster.ErrUnfinished
		}
		return err
	case opv1.RemovedStorageClass:
		err = c.remove(ctx, config, existing)
	}
	return errors.Join(err, c.driver.Report(ctx, nil)) // the administrator wants no StorageClasses
}

// reconcile reconciles the StorageClasses of the types; failures are independent.
func (c *Controller) reconcile(
	ctx context.Context, config *choice.Config, existing map[string]*storagev1.StorageClass,
) error {
	types := c.Types()
	names := c.Of(slices.Collect(maps.Keys(types)), existing)
	room := maxClasses - c.countOurs(existing)
	c.reconciler.OwnsDefault = config.OwnsDefault()
	var failed, excess []string
	faults, done := map[string][]string{}, map[string]bool{}
	for _, w := range c.Wanted(config, types, names) {
		owns := func(class *storagev1.StorageClass) bool {
			return c.IsClassOf(class, w.Type.Name)
		}
		class := existing[w.Name]
		if taken := c.Taken(w, class); taken != "" {
			faults[reasonNameTaken] = append(faults[reasonNameTaken], taken)
			continue
		}
		reason, fault := c.Fault(w, class)
		if class == nil && room <= 0 && reason != c.Ignored() {
			excess = append(excess, fmt.Sprintf("%q", w.Type.Name))
			continue
		}
		if fault != "" {
			faults[reason] = append(faults[reason], fault)
		}
		switch {
		case class != nil:
		case reason == c.Ignored(), reason == c.NoNetwork() && config != nil:
			continue
		default:
			room--
		}
		required := c.driver.Required(w, class)
		w.Keep(required, class)
		if c.cluster.Labels != nil {
			required.Labels = labels.Merge(required.Labels, c.cluster.Labels)
		}
		config.MarkDefault(required)
		c.reconciled[w.Name], done[w.Name] = true, true
		if err := c.reconciler.Reconcile(ctx, required, owns); err != nil {
			failed = append(failed,
				fmt.Sprintf("StorageClass %s of %s %q: %v", w.Name, c.Noun, w.Type.Name, err))
		}
	}
	failed = append(failed, c.unsetDefaults(ctx, config, existing, done)...)
	if len(excess) > 0 {
		faults[c.Ignored()] = slices.Insert(faults[c.Ignored()], 0, c.limited(excess))
	}
	var err error
	if types != nil {
		faults[c.GoneType()] = c.gone(existing, names)
		err = c.tell(ctx, faults)
	}
	if len(failed) > 0 {
		err = errors.Join(errors.New(cluster.Joined(failed, maxTold, "\n")), err)
	}
	return err
}

func (c *Controller) tell(ctx context.Context, faults map[string][]string) error {
	for _, reason := range []string{reasonNameTaken, c.Ignored(), c.NoNetwork(), c.GoneType()} {
		c.warn(reason, faults[reason])
	}
	return c.driver.Report(ctx, slices.Concat(faults[c.GoneType()], faults[reasonNameTaken],
		faults[c.Ignored()], faults[c.NoNetwork()]))
}

// warn records an event about a problem that only an administrator can fix. It is not an error,
// because the driver and the other types are not affected.
func (c *Controller) warn(reason string, faults []string) {
	message := cluster.Joined(faults, maxTold, "; ")
	if message != "" && message != c.warned[reason] {
		c.events.Warning(reason, message)
	}
	c.warned[reason] = message
}

// remove deletes the classes that this operator or an earlier release created, including those of
// removed types.
func (c *Controller) remove(
	ctx context.Context, config *choice.Config, existing map[string]*storagev1.StorageClass,
) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		class := existing[name]
		if !c.created(class) && !c.isAdditional(config, class) {
			continue
		}
		_, _, err := resourceapply.DeleteStorageClass(ctx, c.kube.StorageV1(), c.events, class)
		if err != nil {
			errs = append(errs, fmt.Errorf("deleting StorageClass %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
