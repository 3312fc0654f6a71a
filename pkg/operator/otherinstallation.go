package operator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// goneAfter is after how many durations of a Lease without a change its operator is gone.
const goneAfter = 5

// otherInstallation is the one that an object names instead of this one.
type otherInstallation struct {
	*installation

	// served is the namespace of the other one, "" if there is none.
	served string
	// renewal changes while its operator runs, and since is when it changed last.
	renewal string
	since   time.Time
}

// claim claims the object if it exists, and if no other installation serves it.
func (o *otherInstallation) claim(ctx context.Context) (done bool, err error) {
	object, err := o.objects.Get(ctx, o.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err == nil && o.since.IsZero() {
		err = o.compare(ctx)
	}
	if err != nil {
		return false, err
	}
	// The other one claims an object again that was created anew.
	by := cmp.Or(textIn(object, "status", "namespace"), o.served)
	if by != "" && by != o.namespace {
		if gone, err := o.isGone(ctx, by); err != nil || !gone {
			return false, err
		}
		o.process.Events.Warningf("InstallationTakenOver", "This operator takes over %s, whose operator "+
			"in namespace %s is gone. Remove what is left of the driver there: kubectl get "+
			"deployments,daemonsets -n %s -l app.kubernetes.io/part-of=openstack-csi", o.object, by, by)
	}
	_, err = o.serve(ctx, object)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// isGone returns whether an operator has not renewed its Lease for long, without comparing clocks.
func (o *otherInstallation) isGone(ctx context.Context, namespace string) (bool, error) {
	lease, err := o.kube.CoordinationV1().Leases(namespace).Get(ctx, o.election.Name,
		metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	renewal, now := "", o.process.Clock.Now()
	if err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
		renewal = lease.ResourceVersion
	}
	patience := goneAfter * o.election.LeaseDuration.Duration
	if o.served != namespace {
		o.process.SetReady(false)
		text := fmt.Sprintf("the installation in namespace %s serves %s, so this one in namespace %s "+
			"writes nothing. Remove one of them. If the other one is removed, this one takes over %s later",
			namespace, o.object, o.namespace, patience)
		if !o.mayWork(ctx, namespace) {
			lost, repair, leave := diagnosis.LostPermissions(o.operator, namespace, o.namespace)
			text += ". The " + lost + ". " + repair + leave
		}
		klog.FromContext(ctx).Info("Waiting: " + text)
		o.process.Events.Warning("OtherInstallation", text)
	}
	if o.served != namespace || o.renewal != renewal {
		o.served, o.renewal, o.since = namespace, renewal, now
	}
	return now.Sub(o.since) >= patience, nil
}

// mayWork returns false if the operator in a namespace has lost its permissions, here the one that
// this request needs: all are in one ClusterRole.
func (o *otherInstallation) mayWork(ctx context.Context, namespace string) bool {
	account := serviceaccount.UserInfo(namespace, o.operator, "")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: account.GetName(), Groups: append(account.GetGroups(), user.AllAuthenticated),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "create", Group: authorizationv1.GroupName, Resource: "subjectaccessreviews",
		},
	}}
	review, err := o.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review,
		metav1.CreateOptions{})
	return err != nil || review.Status.Allowed
}
