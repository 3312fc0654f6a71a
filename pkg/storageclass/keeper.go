// Package storageclass keeps StorageClasses the way an operator requires them. What the operator does not require belongs to
// the administrator, and a repair never loses it. Its callers are the core and the driver plugins.
package storageclass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
)

const (
	// replaceTimeout bounds the requests that replace a StorageClass. They outlive a shutdown of the operator.
	replaceTimeout = 20 * time.Second
	// replacePause is the time between two attempts to replace a StorageClass if the API server refused the new one after it had
	// accepted it in a dry run. Each attempt deletes the class for a moment.
	replacePause = 10 * time.Minute
	// maxSize is how large a StorageClass may be, in bytes, for the keeper to repair it: meanwhile it keeps a copy. The
	// administrator of a hosted cluster can make one as large as the API server accepts.
	maxSize = 64 << 10
)

// ErrTaken says that the name of a StorageClass belongs to somebody else's StorageClass.
var ErrTaken = errors.New("another StorageClass has this name")

// Keeper creates and repairs StorageClasses. It is not safe for concurrent use.
type Keeper struct {
	lister storagelisters.StorageClassLister
	api    storageclient.StorageClassInterface
	events events.Recorder
	clock  clock.PassiveClock
	// deleted are the StorageClasses that the keeper deleted and has not created again, by name.
	deleted map[string]*storagev1.StorageClass
	// failed are the last attempts to replace a StorageClass after which the old one came back, by name.
	failed map[string]failure
}

type failure struct {
	at  time.Time
	err error
}

// NewKeeper returns a keeper that compares with the lister's cache and writes with kube.
func NewKeeper(kube kubernetes.Interface, lister storagelisters.StorageClassLister, recorder events.Recorder) *Keeper {
	return &Keeper{
		lister: lister, api: kube.StorageV1().StorageClasses(), events: recorder, clock: clock.RealClock{},
		deleted: map[string]*storagev1.StorageClass{}, failed: map[string]failure{},
	}
}

// Keep creates the required StorageClass, or repairs the existing one if owns accepts it; otherwise the error is ErrTaken.
func (k *Keeper) Keep(ctx context.Context, required *storagev1.StorageClass, owns func(*storagev1.StorageClass) bool) error {
	cached, err := k.lister.Get(required.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil && owns(cached) && equality.Semantic.DeepEqual(cached, merge(cached, required)) {
		return nil
	}
	return retry.OnError(retry.DefaultRetry, overtaken, func() error { return k.write(ctx, required, owns) })
}

// overtaken tells whether somebody else wrote or deleted the object between two requests.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}

// write compares with the API server, because the cache may not contain the operator's own last write yet.
func (k *Keeper) write(ctx context.Context, required *storagev1.StorageClass, owns func(*storagev1.StorageClass) bool) error {
	existing, err := k.api.Get(ctx, required.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return k.create(ctx, required)
	}
	if err != nil {
		return err
	}
	if !owns(existing) {
		return ErrTaken
	}
	delete(k.deleted, existing.Name)
	desired := merge(existing, required)
	switch {
	case equality.Semantic.DeepEqual(existing, desired):
		return nil
	case existing.Size() > maxSize:
		return fmt.Errorf("the StorageClass is larger than %d KiB: shorten it, or delete it to have it created again", maxSize>>10)
	case existing.DeletionTimestamp != nil:
		// Whoever deleted it, the next one contains what the administrator had set.
		k.deleted[existing.Name] = existing
		return fmt.Errorf("the StorageClass is being deleted and waits for its finalizers %s: remove them", strings.Join(existing.Finalizers, ", "))
	case canUpdate(existing, desired):
		_, err = k.api.Update(ctx, desired, metav1.UpdateOptions{})
		resourcehelper.ReportUpdateEvent(k.events, desired, err)
		return err
	}
	return k.replace(ctx, existing, required)
}

// replace deletes the StorageClass and creates it again, which is the only way to change its immutable fields. It deletes
// nothing before the API server has accepted the new StorageClass.
func (k *Keeper) replace(ctx context.Context, existing, required *storagev1.StorageClass) error {
	last, found := k.failed[existing.Name]
	if found && k.clock.Since(last.at) < replacePause {
		return last.err
	}
	// The API server finds that the name exists only after admission and validation have accepted the object.
	_, err := k.api.Create(ctx, newborn(merge(existing, required)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the API server refuses the repaired StorageClass, the existing one stays as it is: %w", err)
	}
	// Without the cancel of a shutdown, which could come between the two requests.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replaceTimeout)
	defer cancel()
	err = k.api.Delete(ctx, existing.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &existing.UID, ResourceVersion: &existing.ResourceVersion},
	})
	resourcehelper.ReportDeleteEvent(k.events, existing, err, "The API server cannot update it, so the operator creates it again")
	if err != nil {
		return err
	}
	k.deleted[existing.Name] = existing
	return k.create(ctx, required)
}

// create creates the StorageClass. If the keeper deleted it before, the new one contains what the administrator had set; if the
// API server refuses that one, the old one comes back.
func (k *Keeper) create(ctx context.Context, required *storagev1.StorageClass) error {
	deleted, found := k.deleted[required.Name]
	if !found {
		return k.post(ctx, required)
	}
	err := k.post(ctx, merge(deleted, required))
	if err == nil || overtaken(err) {
		return err
	}
	err = fmt.Errorf("creating the repaired StorageClass: %w", err)
	if failed := k.post(ctx, deleted); failed != nil {
		return errors.Join(err, fmt.Errorf("creating the StorageClass as it was before: %w", failed))
	}
	k.failed[required.Name] = failure{k.clock.Now(), err}
	return err
}

func (k *Keeper) post(ctx context.Context, class *storagev1.StorageClass) error {
	_, err := k.api.Create(ctx, newborn(class), metav1.CreateOptions{})
	resourcehelper.ReportCreateEvent(k.events, class, err)
	if err == nil {
		delete(k.deleted, class.Name)
	}
	return err
}

// merge returns the existing StorageClass with everything that required sets. An existing choice of the default class stays.
func merge(existing, required *storagev1.StorageClass) *storagev1.StorageClass {
	ret := existing.DeepCopy()
	ret.Labels = withAll(ret.Labels, required.Labels)
	choice, chosen := existing.Annotations[DefaultAnnotation]
	ret.Annotations = withAll(ret.Annotations, required.Annotations)
	if chosen {
		ret.Annotations[DefaultAnnotation] = choice
	}
	ret.Provisioner = required.Provisioner
	ret.Parameters = required.Parameters
	ret.ReclaimPolicy = cmp.Or(required.ReclaimPolicy, existing.ReclaimPolicy)
	ret.VolumeBindingMode = cmp.Or(required.VolumeBindingMode, existing.VolumeBindingMode)
	ret.AllowVolumeExpansion = cmp.Or(required.AllowVolumeExpansion, existing.AllowVolumeExpansion)
	if required.MountOptions != nil {
		ret.MountOptions = required.MountOptions
	}
	if required.AllowedTopologies != nil {
		ret.AllowedTopologies = required.AllowedTopologies
	}
	return ret
}

// DefaultAnnotation marks the StorageClass of claims that name none.
const DefaultAnnotation = "storageclass.kubernetes.io/is-default-class"

// canUpdate tells whether the API server accepts desired as an update.
func canUpdate(existing, desired *storagev1.StorageClass) bool {
	return existing.Provisioner == desired.Provisioner &&
		equality.Semantic.DeepEqual(existing.Parameters, desired.Parameters) &&
		equality.Semantic.DeepEqual(existing.ReclaimPolicy, desired.ReclaimPolicy) &&
		equality.Semantic.DeepEqual(existing.VolumeBindingMode, desired.VolumeBindingMode)
}

// newborn returns the class without the metadata that belongs to one object in the API server.
func newborn(class *storagev1.StorageClass) *storagev1.StorageClass {
	ret := class.DeepCopy()
	ret.ObjectMeta = metav1.ObjectMeta{
		Name: class.Name, Labels: ret.Labels, Annotations: ret.Annotations, OwnerReferences: ret.OwnerReferences,
	}
	return ret
}

// withAll returns entries with those of more, which win.
func withAll(entries, more map[string]string) map[string]string {
	if len(more) == 0 {
		return entries
	}
	ret := make(map[string]string, len(entries)+len(more))
	for _, from := range []map[string]string{entries, more} {
		for key, value := range from {
			ret[key] = value
		}
	}
	return ret
}
