package fence

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// clientsInterval is the time after which the clients of a node are read again.
	clientsInterval = time.Hour
	clientsTimeout  = time.Minute
	// Limits of what a driver returns.
	maxClients       = 256
	maxClientCIDRs   = 64
	maxClientID      = 253 // bytes
	reasonBadClients = "InvalidFenceClients"
)

// Clients writes the clients of the network storage of a node into the status of its CSIAddonsNode,
// for each NetworkFenceClass of the driver. It is the only writer of that field.
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
	if node.DeletionTimestamp != nil || sidecar == nil || !sidecar.Has(connection.GetFenceClients) {
		return reconcile.Result{}, nil // the next connection triggers it
	}
	var classes v1alpha1.NetworkFenceClassList
	if err := c.Client.List(ctx, &classes); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing NetworkFenceClasses: %w", err)
	}
	var found []v1alpha1.NetworkFenceClientStatus
	var failed error
	for i := range classes.Items {
		class := &classes.Items[i]
		if class.Spec.Provisioner != sidecar.Driver {
			continue
		}
		clients, err := read(ctx, sidecar, class)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		found = append(found, v1alpha1.NetworkFenceClientStatus{
			NetworkFenceClassName: class.Name, ClientDetails: clients,
		})
	}
	if failed != nil {
		c.Events.Eventf(node, nil, corev1.EventTypeWarning, reasonBadClients, "GetFenceClients", "%s",
			connection.Describe(failed))
		return reconcile.Result{}, failed
	}
	return reconcile.Result{RequeueAfter: clientsInterval}, c.write(ctx, node, found)
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

// read asks a sidecar for the clients of its node. It accepts only addresses.
func read(ctx context.Context, sidecar *connection.Sidecar, class *v1alpha1.NetworkFenceClass,
) ([]v1alpha1.ClientDetail, error) {
	request, err := classRequest(class)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, clientsTimeout)
	defer cancel()
	answer, err := sidecar.NetworkFence.GetFenceClients(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("asking pod %s for the clients of NetworkFenceClass %s: %w",
			sidecar.Pod, class.Name, err)
	}
	if len(answer.GetClients()) > maxClients {
		return nil, fmt.Errorf("pod %s returns more than %d clients", sidecar.Pod, maxClients)
	}
	clients := []v1alpha1.ClientDetail{}
	for _, one := range answer.GetClients() {
		detail, err := parse(one)
		if err != nil {
			return nil, fmt.Errorf("pod %s returns an invalid client: %w", sidecar.Pod, err)
		}
		clients = append(clients, detail)
	}
	return clients, nil
}

func parse(one *wire.ClientDetails) (v1alpha1.ClientDetail, error) {
	detail := v1alpha1.ClientDetail{ID: one.GetId(), Cidrs: []string{}}
	if len(detail.ID) > maxClientID || len(one.GetCidrs()) > maxClientCIDRs {
		return detail, fmt.Errorf("an ID has more than %d bytes, or a client more than %d CIDRs",
			maxClientID, maxClientCIDRs)
	}
	for _, cidr := range one.GetCidrs() {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return detail, fmt.Errorf("%.64q is no CIDR", cidr)
		}
		detail.Cidrs = append(detail.Cidrs, prefix.String())
	}
	return detail, nil
}
