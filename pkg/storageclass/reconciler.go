// Package storageclass reconciles the StorageClasses of an operator: its Reconciler those among the
// assets, for pkg/operator, and its Controller one for each type of volumes or shares that
// OpenStack offers and the administrator selects, for the driver plugins. A repair preserves every
// field that the operator does not set, because the administrator may have set it.
package storageclass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	storageclient "k8s.io/client-go/kubernetes/typed/storage/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourcehelper"

	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
)

const (
	// replaceTimeout bounds the requests that replace a StorageClass. A shutdown of the operator does
	// not cancel them.
	replaceTimeout = 20 * time.Second
	// replaceBackoff is the time between two attempts to replace a StorageClass if the API server
	// rejects the new one after it accepted it in a dry run. During an attempt the class is missing.
	replaceBackoff = 10 * time.Minute
	// maxReplacements is how often a StorageClass is replaced within replaceBackoff. If another
	// program changes it as often, it would be missing again and again.
	maxReplacements = 3
)

// ErrNameTaken means that a StorageClass with this name exists that the operator does not own.
var ErrNameTaken = errors.New("another StorageClass has this name")

// Reconciler creates and repairs StorageClasses. It is not safe for concurrent use.
type Reconciler struct {
	// OwnsDefault is true if the required StorageClass determines whether it is the default. Otherwise
	// the administrator's choice has precedence.
	OwnsDefault bool

	lister storagelisters.StorageClassLister
	api    storageclient.StorageClassInterface
	events events.Recorder
	clock  clock.PassiveClock
	// deleted contains the StorageClasses that were deleted and not recreated yet, by name.
	deleted map[string]*storagev1.StorageClass
	// replaced contains the times of the last replacements of a StorageClass, by name.
	replaced map[string][]time.Time
	// failed contains the last attempt to replace a StorageClass that ended with the old one, by name.
	failed map[string]failure
}

type failure struct {
	at  time.Time
	err error
}

// NewReconciler returns a Reconciler that reads from the lister's cache and writes with kube.
func NewReconciler(
	kube kubernetes.Interface, lister storagelisters.StorageClassLister, recorder events.Recorder,
) *Reconciler {
	return &Reconciler{
		lister: lister, api: kube.StorageV1().StorageClasses(), events: recorder,
		clock:   clock.RealClock{},
		deleted: map[string]*storagev1.StorageClass{}, failed: map[string]failure{},
		replaced: map[string][]time.Time{},
	}
}

// Reconcile creates the required StorageClass, or repairs the existing one if isOurs returns true
// for it. Otherwise it returns ErrNameTaken.
func (r *Reconciler) Reconcile(
	ctx context.Context, required *storagev1.StorageClass, isOurs func(*storagev1.StorageClass) bool,
) error {
	cached, err := r.lister.Get(required.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil && isOurs(cached) && equality.Semantic.DeepEqual(cached, r.merge(cached, required)) {
		return nil
	}
	return retry.OnError(retry.DefaultRetry, isRace, func() error {
		return r.write(ctx, required, isOurs)
	})
}

// isRace reports whether another client wrote or deleted the object between two requests.
func isRace(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// write reads from the API server, because the cache may be older than the operator's last write.
func (r *Reconciler) write(
	ctx context.Context, required *storagev1.StorageClass, isOurs func(*storagev1.StorageClass) bool,
) error {
	existing, err := r.api.Get(ctx, required.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return r.create(ctx, required)
	}
	if err != nil {
		return err
	}
	if !isOurs(existing) {
		return ErrNameTaken
	}
	delete(r.deleted, existing.Name)
	desired := r.merge(existing, required)
	switch {
	case equality.Semantic.DeepEqual(existing, desired):
		return nil
	case existing.DeletionTimestamp != nil:
		// The next StorageClass contains what the administrator set in this one.
		r.deleted[existing.Name] = existing
		return fmt.Errorf("the StorageClass is being deleted and waits for its finalizers %s: "+
			"remove them", strings.Join(existing.Finalizers, ", "))
	case canUpdate(existing, desired):
		_, err = r.api.Update(ctx, desired, metav1.UpdateOptions{})
		resourcehelper.ReportUpdateEvent(r.events, desired, err)
		return err
	}
	return r.replace(ctx, existing, required)
}

// replace deletes and recreates the StorageClass, which is the only way to change immutable fields.
// It deletes nothing before the API server has accepted the new StorageClass in a dry run.
func (r *Reconciler) replace(
	ctx context.Context, existing, required *storagev1.StorageClass,
) error {
	last, found := r.failed[existing.Name]
	if found && r.clock.Since(last.at) < replaceBackoff {
		return last.err
	}
	if err := r.mayReplace(existing.Name); err != nil {
		return err
	}
	// The API server returns AlreadyExists only after admission and validation of the object.
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	_, err := r.api.Create(ctx, withoutIdentity(r.merge(existing, required)), dryRun)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the API server rejects the repaired StorageClass, so the operator keeps the "+
			"existing one: %w", err)
	}
	// A shutdown must not cancel the context between the two requests.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replaceTimeout)
	defer cancel()
	err = r.api.Delete(ctx, existing.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{
			UID: &existing.UID, ResourceVersion: &existing.ResourceVersion,
		},
	})
	const reason = "The API server cannot update it, so the operator recreates it"
	resourcehelper.ReportDeleteEvent(r.events, existing, err, reason)
	if err != nil {
		return err
	}
	r.deleted[existing.Name] = existing
	r.replaced[existing.Name] = append(r.replaced[existing.Name], r.clock.Now())
	return r.create(ctx, required)
}

// mayReplace returns an error if the StorageClass has been replaced too often.
func (r *Reconciler) mayReplace(name string) error {
	r.replaced[name] = slices.DeleteFunc(r.replaced[name], func(at time.Time) bool {
		return r.clock.Since(at) >= replaceBackoff
	})
	if len(r.replaced[name]) < maxReplacements {
		return nil
	}
	return fmt.Errorf("the operator has recreated it %d times within %v, and something changes it "+
		"each time: correct that, or set spec.storageClassState to Unmanaged",
		maxReplacements, replaceBackoff)
}

// create creates the StorageClass. If replace deleted it before, the new one preserves what the
// administrator set. If the API server rejects that one, create restores the old one.
func (r *Reconciler) create(ctx context.Context, required *storagev1.StorageClass) error {
	deleted, found := r.deleted[required.Name]
	if !found {
		return r.post(ctx, required)
	}
	err := r.post(ctx, r.merge(deleted, required))
	if err == nil || isRace(err) {
		return err
	}
	err = fmt.Errorf("creating the repaired StorageClass: %w", err)
	if failed := r.post(ctx, deleted); failed != nil {
		return errors.Join(err, fmt.Errorf("restoring the previous StorageClass: %w", failed))
	}
	r.failed[required.Name] = failure{r.clock.Now(), err}
	return err
}

func (r *Reconciler) post(ctx context.Context, class *storagev1.StorageClass) error {
	_, err := r.api.Create(ctx, withoutIdentity(class), metav1.CreateOptions{})
	resourcehelper.ReportCreateEvent(r.events, class, err)
	if err == nil {
		delete(r.deleted, class.Name)
	}
	return err
}

func (r *Reconciler) merge(existing, required *storagev1.StorageClass) *storagev1.StorageClass {
	return classes.Merge(existing, required, r.OwnsDefault)
}

func canUpdate(existing, desired *storagev1.StorageClass) bool {
	return existing.Provisioner == desired.Provisioner &&
		equality.Semantic.DeepEqual(existing.Parameters, desired.Parameters) &&
		equality.Semantic.DeepEqual(existing.ReclaimPolicy, desired.ReclaimPolicy) &&
		equality.Semantic.DeepEqual(existing.VolumeBindingMode, desired.VolumeBindingMode)
}

// withoutIdentity returns the class without the metadata that the API server sets.
func withoutIdentity(class *storagev1.StorageClass) *storagev1.StorageClass {
	ret := class.DeepCopy()
	ret.ObjectMeta = metav1.ObjectMeta{
		Name: class.Name, Labels: ret.Labels, Annotations: ret.Annotations,
		OwnerReferences: ret.OwnerReferences,
	}
	return ret
}
