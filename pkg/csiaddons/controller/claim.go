package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
)

// unknownInterval is the time after which a claim is checked again whose schedule is not known, for
// example because its StorageClass is missing.
const unknownInterval = 5 * time.Minute

// cronJobSuffix follows the name of the claim in the name of its ReclaimSpaceCronJob. The
// CSI-Addons for Ceph uses the same name if its schedules come from StorageClasses.
const cronJobSuffix = "-reclaimspace"

// Claims maintains a ReclaimSpaceCronJob for each PersistentVolumeClaim that has a schedule by an
// annotation. It never writes to a claim.
type Claims struct {
	Client client.Client
	// Live reads from the API server, without a cache.
	Live    client.Reader
	Drivers connection.Drivers
	// ClassOnly says that only annotations of StorageClasses count.
	ClassOnly bool
	Events    events.EventRecorder

	// offers contains the names of the drivers that can reclaim space.
	offers sync.Map
}

// Reconcile creates, changes or deletes the ReclaimSpaceCronJob of a claim. It changes nothing
// while the claim has no volume, and Kubernetes deletes the object together with the claim.
func (c *Claims) Reconcile(ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (reconcile.Result, error) {
	if claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound {
		return reconcile.Result{}, nil
	}
	err := c.schedule(ctx, claim)
	if errors.Is(err, errUnknown) {
		return reconcile.Result{RequeueAfter: unknownInterval}, nil
	}
	return reconcile.Result{}, err
}

// errUnknown means that it is not known now which schedule a claim has.
var errUnknown = errors.New("an object of the claim is missing")

// schedule creates, changes or deletes the ReclaimSpaceCronJob of a bound claim. It maintains the
// oldest of those that a controller of CSI-Addons has created, unless a user maintains one.
func (c *Claims) schedule(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	managed, foreign, err := c.cronJobs(ctx, claim)
	if err != nil {
		return err
	}
	wanted, err := c.wanted(ctx, claim, managed)
	switch {
	case err != nil || wanted == nil || foreign:
	case len(managed) > 0:
		err = c.change(ctx, claim, managed[0], wanted)
		managed = managed[1:]
	default:
		err = c.create(ctx, claim, wanted)
	}
	for _, surplus := range managed {
		if err != nil {
			break
		}
		if err = remove(ctx, c.Client, surplus); err == nil {
			log.FromContext(ctx).Info("Deleted the ReclaimSpaceCronJob of a claim without a schedule",
				"cronJob", surplus.Name)
		}
	}
	if err == nil && foreign {
		err = errUnknown // the claim may not own it, so an end of the object causes no event
	}
	return err
}

// cronJobs returns the ReclaimSpaceCronJobs of a claim that a controller of CSI-Addons has created,
// the oldest first, and whether a user maintains one that the claim owns or that its annotation
// names. A controller maintains those that are managed, also that of the CSI-Addons for Ceph. A
// backup restores them without an owner.
func (c *Claims) cronJobs(ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (managed []*v1alpha1.ReclaimSpaceCronJob, foreign bool, err error) {
	var list v1alpha1.ReclaimSpaceCronJobList
	err = c.Client.List(ctx, &list, client.InNamespace(claim.Namespace),
		client.MatchingFields{indexClaim: claim.Name})
	usual, name := v1alpha1.ReclaimSpaceCronJob{}, appended(claim.Name, cronJobSuffix)
	if err == nil {
		err = c.Client.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: name}, &usual)
	}
	if client.IgnoreNotFound(err) != nil {
		return nil, false, fmt.Errorf("reading ReclaimSpaceCronJobs: %w", err)
	}
	if targetOf(&usual) == claim.Name {
		list.Items = append(list.Items, usual)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.ReclaimSpaceCronJob) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			strings.Compare(a.Name, b.Name))
	})
	for i := range list.Items {
		one := &list.Items[i]
		owned, state := metav1.IsControlledBy(one, claim), one.Annotations[v1alpha1.StateAnnotation]
		restored := metav1.GetControllerOf(one) == nil && state == v1alpha1.ManagedState &&
			one.Name == name
		switch {
		case one.DeletionTimestamp != nil:
		case restored, owned && cmp.Or(state, v1alpha1.ManagedState) == v1alpha1.ManagedState:
			// The CSI-Addons for Ceph wrote no annotation before v0.11.
			managed = append(managed, one)
		case owned || claim.Annotations[v1alpha1.ReclaimSpaceCronJobAnnotation] == one.Name:
			foreign = true
		}
	}
	return managed, foreign, nil
}

// create creates the ReclaimSpaceCronJob of a claim, if the driver of the volume can reclaim space.
func (c *Claims) create(ctx context.Context, claim *corev1.PersistentVolumeClaim, wanted *origin,
) error {
	driver, err := c.driver(ctx, claim)
	if err != nil {
		return err
	}
	if _, can := c.offers.Load(driver); !can {
		return nil
	}
	one := newCronJob(claim, wanted)
	err = c.Client.Create(ctx, one)
	switch {
	case apierrors.IsAlreadyExists(err):
		return c.explain(ctx, claim, one)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	}
	return c.report(wanted, one, err)
}

// change writes a new schedule and a missing owner, unless somebody has changed the object since it
// was read. Other fields belong to users.
func (c *Claims) change(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	one *v1alpha1.ReclaimSpaceCronJob, wanted *origin,
) error {
	owned := metav1.IsControlledBy(one, claim)
	if one.Spec.Schedule == wanted.schedule && owned &&
		one.Labels[v1alpha1.ScheduleFromLabel] == wanted.kind {
		return nil
	}
	changed := one.DeepCopy()
	if !owned {
		changed.OwnerReferences = append(changed.OwnerReferences, ownerOf(claim))
	}
	changed.Spec.Schedule = wanted.schedule
	metav1.SetMetaDataLabel(&changed.ObjectMeta, v1alpha1.ScheduleFromLabel, wanted.kind)
	patch := client.MergeFromWithOptions(one, client.MergeFromWithOptimisticLock{})
	return c.report(wanted, one, client.IgnoreNotFound(c.Client.Patch(ctx, changed, patch)))
}

// report records an event if a schedule is invalid. An API server that refuses the schedule does so
// again, so that is no error to retry.
func (c *Claims) report(wanted *origin, one *v1alpha1.ReclaimSpaceCronJob, err error) error {
	_, invalid := parse(wanted.schedule)
	switch {
	case apierrors.IsInvalid(err):
		invalid = err
	case err != nil:
		return fmt.Errorf("writing ReclaimSpaceCronJob %s: %w", client.ObjectKeyFromObject(one), err)
	}
	if invalid != nil {
		c.Events.Eventf(wanted.object, nil, corev1.EventTypeWarning, ReasonInvalidSchedule,
			actionSchedule, "Annotation %s: %.900s", v1alpha1.ReclaimSpaceScheduleAnnotation,
			invalid.Error())
	}
	return nil
}

// explain records an event if another object has the name of the ReclaimSpaceCronJob of a claim,
// and returns errUnknown. An object of an earlier claim with the same name will be deleted.
func (c *Claims) explain(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	one *v1alpha1.ReclaimSpaceCronJob,
) error {
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(one), one); err != nil {
		return fmt.Errorf("reading ReclaimSpaceCronJob %s: %w", client.ObjectKeyFromObject(one), err)
	}
	owner := metav1.GetControllerOf(one)
	if owner == nil || owner.Kind != claimKind || owner.Name != claim.Name {
		c.Events.Eventf(claim, one, corev1.EventTypeWarning, ReasonNameTaken, actionSchedule,
			"No job reclaims space: ReclaimSpaceCronJob %s exists and does not belong to the claim",
			one.Name)
	}
	return errUnknown
}

// ownerOf returns the reference to a claim. It does not block the deletion of the claim, because
// that would need a permission to write to claims.
func ownerOf(claim *corev1.PersistentVolumeClaim) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: "v1", Kind: claimKind, Name: claim.Name, UID: claim.UID,
		Controller: ptr.To(true),
	}
}

func newCronJob(claim *corev1.PersistentVolumeClaim, wanted *origin) *v1alpha1.ReclaimSpaceCronJob {
	const history = 1 // jobs to keep: there are many claims
	one := &v1alpha1.ReclaimSpaceCronJob{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: claim.Namespace, Name: appended(claim.Name, cronJobSuffix),
			Labels:          map[string]string{v1alpha1.ScheduleFromLabel: wanted.kind},
			Annotations:     map[string]string{v1alpha1.StateAnnotation: v1alpha1.ManagedState},
			OwnerReferences: []metav1.OwnerReference{ownerOf(claim)},
		},
		Spec: v1alpha1.ReclaimSpaceCronJobSpec{
			Schedule:                   wanted.schedule,
			SuccessfulJobsHistoryLimit: ptr.To[int32](history),
			FailedJobsHistoryLimit:     ptr.To[int32](history),
		},
	}
	one.Spec.JobTemplate.Spec.Target.PersistentVolumeClaim = claim.Name
	return one
}

// driver returns the CSI driver of the volume of a claim, or "". It returns errUnknown if the claim
// has lost its volume. The driver is read from the API server, because few claims need it.
func (c *Claims) driver(ctx context.Context, claim *corev1.PersistentVolumeClaim,
) (string, error) {
	volume, err := volumeOf(ctx, c.Live, claim)
	if err != nil || volume == nil {
		return "", cmp.Or(err, errUnknown)
	}
	return ptr.Deref(source.Of(volume), corev1.CSIPersistentVolumeSource{}).Driver, nil
}

// offering returns requests for all claims if a CSIAddonsNode is the first of its driver that
// reports that the driver can reclaim space. The driver counts as such until the controller ends.
func (c *Claims) offering(ctx context.Context, o client.Object) []reconcile.Request {
	node := o.(*v1alpha1.CSIAddonsNode)
	driver, can := node.Spec.Driver.Name, node.Status.Capabilities
	if !c.Drivers.Allows(driver, node.Namespace) || !slices.Contains(can, connection.ReclaimOnline) &&
		!slices.Contains(can, connection.ReclaimOffline) {
		return nil
	}
	if _, known := c.offers.LoadOrStore(driver, true); known {
		return nil
	}
	return connection.Requests(ctx, c.Client, &corev1.PersistentVolumeClaimList{})
}
