package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

const (
	// clientsInterval is the time after which the clients of a node are read again.
	clientsInterval = time.Hour
	// clientsTimeout is short, because a sidecar that never answers occupies one of few workers.
	clientsTimeout = 10 * time.Second
	// connectInterval is how often the controller checks for a connection to the sidecar.
	connectInterval = time.Minute
)

// Reasons of events, beside ReasonInvalidClass.
const (
	// reasonBadClients means that a pod may report addresses that are not those of its node.
	reasonBadClients = "InvalidFenceClients"
	// reasonUnknownClients means that the controller cannot read or check the addresses.
	reasonUnknownClients = "FenceClientsUnknown"
)

// Clients writes the clients of the network storage of a node into the status of its CSIAddonsNode,
// for each NetworkFenceClass of the driver, and an annotation with the names of these classes. It
// is the only writer of both.
type Clients struct {
	Client client.Client
	Pool   *connection.Pool
	Events events.EventRecorder
}

// Reconcile reads the clients of one node.
func (c *Clients) Reconcile(ctx context.Context, this reconcile.Request,
) (reconcile.Result, error) {
	node := &v1alpha1.CSIAddonsNode{}
	if err := c.Client.Get(ctx, this.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	sidecar := c.Pool.Of(this.NamespacedName)
	switch {
	case node.DeletionTimestamp != nil:
		return reconcile.Result{}, nil
	case sidecar == nil: // after a restart of the controller, a connection changes no status
		return reconcile.Result{RequeueAfter: connectInterval}, nil
	case !sidecar.Has(connection.GetFenceClients):
		return reconcile.Result{}, nil
	}
	classes, err := c.classes(ctx, sidecar.Driver)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: clientsInterval}, c.refresh(ctx, sidecar, node, classes)
}

// refresh writes the clients for each class, and sends an event for each failure. If a sidecar does
// not answer, the previous clients stay. They are dropped if the answer is not valid.
func (c *Clients) refresh(ctx context.Context, sidecar *connection.Sidecar,
	node *v1alpha1.CSIAddonsNode, classes []v1alpha1.NetworkFenceClass,
) error {
	var found []v1alpha1.NetworkFenceClientStatus
	var failed []error
	for i := range classes {
		clients, err := c.read(ctx, sidecar, &classes[i])
		wrong, isWrong := errors.AsType[*invalid](err)
		if err != nil {
			failed = append(failed, err)
			reason := reasonUnknownClients
			if isWrong {
				reason = wrong.reason
			}
			c.Events.Eventf(node, nil, corev1.EventTypeWarning, reason, "GetFenceClients", "%s",
				connection.Describe(err))
		}
		if clients != nil {
			found = append(found, v1alpha1.NetworkFenceClientStatus{
				NetworkFenceClassName: classes[i].Name, ClientDetails: clients,
			})
			continue
		}
		for _, previous := range node.Status.NetworkFenceClientStatus {
			if !isWrong && previous.NetworkFenceClassName == classes[i].Name {
				found = append(found, previous)
			}
		}
	}
	owned := len(found) > 0 && sidecar.Security == connection.Pinned
	failed = append(failed, c.mark(ctx, node, classes, owned))
	changed := node.DeepCopy()
	changed.Status.NetworkFenceClientStatus = found
	_, err := connection.MergeStatus(ctx, c.Client, node, changed)
	return errors.Join(append(failed, err)...)
}

// mark writes the names of the classes, as the controller of the CSI-Addons for Ceph does: a JSON
// array, and no annotation without a class. If owned is set, it makes the Node an owner of its
// CSIAddonsNode, beside the pod. So Kubernetes keeps the addresses of a lost Node whose pod was
// deleted.
func (c *Clients) mark(ctx context.Context, object *v1alpha1.CSIAddonsNode,
	classes []v1alpha1.NetworkFenceClass, owned bool,
) error {
	changed := object.DeepCopy()
	delete(changed.Annotations, v1alpha1.NetworkFenceClassNamesAnnotation)
	if len(classes) > 0 {
		var names []string
		for _, class := range classes {
			names = append(names, class.Name)
		}
		text, err := json.Marshal(names)
		if err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, v1alpha1.NetworkFenceClassNamesAnnotation,
			string(text))
	}
	if owned {
		node := &corev1.Node{}
		err := c.Client.Get(ctx, client.ObjectKey{Name: object.Spec.Driver.NodeID}, node)
		if err == nil {
			err = controllerutil.SetOwnerReference(node, changed, c.Client.Scheme())
		}
		if err != nil {
			return fmt.Errorf("adding Node %s as an owner: %w", object.Spec.Driver.NodeID, err)
		}
	}
	if equality.Semantic.DeepEqual(changed.ObjectMeta, object.ObjectMeta) {
		return nil
	}
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, changed, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("marking CSIAddonsNode %s: %w",
			client.ObjectKeyFromObject(object), err))
	}
	changed.DeepCopyInto(object)
	return nil
}

// classes returns the classes of a driver, by name.
func (c *Clients) classes(ctx context.Context, driver string,
) ([]v1alpha1.NetworkFenceClass, error) {
	var all v1alpha1.NetworkFenceClassList
	if err := c.Client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing NetworkFenceClasses: %w", err)
	}
	found := slices.DeleteFunc(all.Items, func(class v1alpha1.NetworkFenceClass) bool {
		return class.Spec.Provisioner != driver || class.DeletionTimestamp != nil
	})
	slices.SortFunc(found, func(a, b v1alpha1.NetworkFenceClass) int {
		return strings.Compare(a.Name, b.Name)
	})
	return found, nil
}
