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
	clientsTimeout  = time.Minute
	// connectInterval is the time after which a connection to the sidecar is looked for.
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
	// Live reads from the API server, without a cache.
	Live   client.Reader
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
	if err == nil {
		err = c.annotate(ctx, node, classes)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: clientsInterval}, c.refresh(ctx, sidecar, node, classes)
}

// refresh writes the clients for each class, and sends an event for each reason of a failure.
func (c *Clients) refresh(ctx context.Context, sidecar *connection.Sidecar,
	node *v1alpha1.CSIAddonsNode, classes []v1alpha1.NetworkFenceClass,
) error {
	found, failed := c.readAll(ctx, sidecar, node, classes)
	byReason := map[string]error{}
	for _, err := range failed {
		reason := reasonUnknownClients
		if wrong, ok := errors.AsType[*invalid](err); ok {
			reason = wrong.reason
		}
		byReason[reason] = errors.Join(byReason[reason], err)
	}
	for reason, err := range byReason {
		c.Events.Eventf(node, nil, corev1.EventTypeWarning, reason, "GetFenceClients", "%s",
			connection.Describe(err))
	}
	if len(found) > 0 && sidecar.Security == connection.Pinned {
		failed = append(failed, c.own(ctx, node))
	}
	return errors.Join(append(failed, c.write(ctx, node, found))...)
}

// own makes the Node an owner of its CSIAddonsNode, beside the pod. So Kubernetes keeps the
// addresses of a lost Node whose pod was deleted.
func (c *Clients) own(ctx context.Context, sidecar *v1alpha1.CSIAddonsNode) error {
	node := &corev1.Node{}
	err := c.Client.Get(ctx, client.ObjectKey{Name: sidecar.Spec.Driver.NodeID}, node)
	if err != nil {
		return fmt.Errorf("reading Node %s: %w", sidecar.Spec.Driver.NodeID, err)
	}
	changed := sidecar.DeepCopy()
	err = controllerutil.SetOwnerReference(node, changed, c.Client.Scheme())
	if err != nil || len(changed.OwnerReferences) == len(sidecar.OwnerReferences) {
		return err
	}
	patch := client.MergeFromWithOptions(sidecar, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, changed, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("adding an owner of CSIAddonsNode %s: %w",
			client.ObjectKeyFromObject(sidecar), err))
	}
	changed.DeepCopyInto(sidecar)
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

// readAll returns the clients for each class, and the failures. If a sidecar does not answer, it
// keeps the previous clients. It drops them if the answer is not valid.
func (c *Clients) readAll(ctx context.Context, sidecar *connection.Sidecar,
	node *v1alpha1.CSIAddonsNode, classes []v1alpha1.NetworkFenceClass,
) (found []v1alpha1.NetworkFenceClientStatus, failed []error) {
	if len(classes) == 0 {
		return nil, nil
	}
	owner, err := c.owner(ctx, sidecar)
	if err != nil {
		return node.Status.NetworkFenceClientStatus, []error{err}
	}
	for i := range classes {
		clients, err := read(ctx, sidecar, &classes[i], owner)
		if err == nil {
			clients, err = c.unshared(ctx, sidecar, clients)
		}
		if err != nil {
			failed = append(failed, err)
		}
		if clients != nil {
			found = append(found, v1alpha1.NetworkFenceClientStatus{
				NetworkFenceClassName: classes[i].Name, ClientDetails: clients,
			})
			continue
		}
		if _, wrong := errors.AsType[*invalid](err); wrong {
			continue
		}
		for _, previous := range node.Status.NetworkFenceClientStatus {
			if previous.NetworkFenceClassName == classes[i].Name {
				found = append(found, previous)
			}
		}
	}
	return found, failed
}

// annotate writes the names of the classes, as the controller of the CSI-Addons for Ceph does: a
// JSON array, and no annotation without a class.
func (c *Clients) annotate(ctx context.Context, node *v1alpha1.CSIAddonsNode,
	classes []v1alpha1.NetworkFenceClass,
) error {
	var wanted string
	if len(classes) > 0 {
		names := make([]string, 0, len(classes))
		for _, class := range classes {
			names = append(names, class.Name)
		}
		text, err := json.Marshal(names)
		if err != nil {
			return err
		}
		wanted = string(text)
	}
	if node.Annotations[v1alpha1.NetworkFenceClassNamesAnnotation] == wanted {
		return nil
	}
	changed := node.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[v1alpha1.NetworkFenceClassNamesAnnotation] = wanted
	if wanted == "" {
		delete(changed.Annotations, v1alpha1.NetworkFenceClassNamesAnnotation)
	}
	if err := c.Client.Patch(ctx, changed, client.MergeFrom(node)); err != nil {
		return fmt.Errorf("annotating CSIAddonsNode %s: %w", client.ObjectKeyFromObject(node), err)
	}
	return nil
}

func (c *Clients) write(ctx context.Context, node *v1alpha1.CSIAddonsNode,
	found []v1alpha1.NetworkFenceClientStatus,
) error {
	if equality.Semantic.DeepEqual(node.Status.NetworkFenceClientStatus, found) {
		return nil
	}
	changed := node.DeepCopy()
	changed.Status.NetworkFenceClientStatus = found
	if err := c.Client.Status().Patch(ctx, changed, client.MergeFrom(node)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("writing the status of CSIAddonsNode %s: %w",
			client.ObjectKeyFromObject(node), err))
	}
	return nil
}
