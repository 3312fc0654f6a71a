// Package connection connects the controller of CSI-Addons to sidecars: a pool with a connection
// for each CSIAddonsNode, tokens for single pods, and the choice of the sidecar for an operation.
package connection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// maxPerDriver and maxConnections limit the connections of a pool. A sidecar runs in each pod of a
// driver, so this is enough for two drivers on 5,000 nodes with their controller pods.
const (
	maxPerDriver   = 5_100
	maxConnections = 2 * maxPerDriver
)

// Pool contains a connection for each CSIAddonsNode. It is safe for concurrent use.
type Pool struct {
	tokens  *Tokens
	metrics *Metrics
	// leases reads Leases from the API server.
	leases client.Reader
	// lost receives the CSIAddonsNode of each connection that is lost, and how long it was up.
	lost func(types.NamespacedName, time.Duration)

	mu    sync.Mutex
	links map[types.NamespacedName]*link
}

// link is the connection to the sidecar of a CSIAddonsNode.
type link struct {
	Target

	connection *grpc.ClientConn
	sidecar    *Sidecar // nil while the connection is down
}

// NewPool returns an empty pool.
func NewPool(tokens *Tokens, m *Metrics, leases client.Reader) *Pool {
	return &Pool{
		tokens: tokens, metrics: m, leases: leases, links: map[types.NamespacedName]*link{},
	}
}

// Connect connects to the sidecar of a CSIAddonsNode, unless it is connected already, and returns
// the sidecar. If the target has changed, it closes the previous connection. It does not keep a
// connection that fails, so nothing connects again without a call of Connect.
func (p *Pool) Connect(ctx context.Context, name types.NamespacedName, target Target,
) (*Sidecar, error) {
	to, err := p.prepare(ctx, name, target)
	if err != nil {
		return nil, err
	}
	sidecar, err := describe(ctx, to.connection, target)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.links[name] != to:
	case to.connection.GetState() == connectivity.Ready:
		p.up(to, sidecar) // after an error, other calls may still run over the connection
		return sidecar, err
	default:
		p.remove(name)
	}
	return nil, cmp.Or(err, errors.New("the connection was closed"))
}

func (p *Pool) prepare(ctx context.Context, name types.NamespacedName, target Target,
) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.links[name]
	if found != nil && found.Target == target {
		found.connection.Connect()
		return found, nil
	}
	p.remove(name)
	if err := p.full(target.Driver); err != nil {
		return nil, err
	}
	connection, err := grpc.NewClient("passthrough:///"+target.Address, options(target, p.tokens)...)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", target.Address, err)
	}
	added := &link{Target: target, connection: connection}
	p.links[name] = added
	go p.watch(context.WithoutCancel(ctx), name, added)
	return added, nil
}

// watch marks a connection as down each time that it is not ready any more, until it is closed. It
// does not close it, because the sidecar may still answer calls in flight.
func (p *Pool) watch(ctx context.Context, name types.NamespacedName, l *link) {
	for state := l.connection.GetState(); state != connectivity.Shutdown; {
		was, since := state, time.Now()
		if !l.connection.WaitForStateChange(ctx, state) {
			return
		}
		state = l.connection.GetState()
		if was == connectivity.Ready && state != connectivity.Shutdown {
			p.mu.Lock()
			p.up(l, nil)
			p.mu.Unlock()
			p.lost(name, time.Since(since))
		}
	}
}

// full returns an error if there may be no other connection for a driver.
func (p *Pool) full(driver string) error {
	ofDriver := 0
	for _, l := range p.links {
		if l.Driver == driver {
			ofDriver++
		}
	}
	switch {
	case ofDriver >= maxPerDriver:
		return fmt.Errorf("there are %d connections for driver %s already", maxPerDriver, driver)
	case len(p.links) >= maxConnections:
		return fmt.Errorf("there are %d connections already", maxConnections)
	}
	return nil
}

// up sets the sidecar of a connection, or nil if the connection is down.
func (p *Pool) up(l *link, sidecar *Sidecar) {
	switch {
	case l.sidecar == nil && sidecar != nil:
		p.metrics.Connected(l.Driver, 1)
	case l.sidecar != nil && sidecar == nil:
		p.metrics.Connected(l.Driver, -1)
	}
	l.sidecar = sidecar
}

// remove closes a connection. Calls in flight end with CANCELED.
func (p *Pool) remove(name types.NamespacedName) {
	found := p.links[name]
	if found == nil {
		return
	}
	delete(p.links, name)
	p.up(found, nil)
	_ = found.connection.Close() // fails only if it is closed already
}

// Close closes the connection for a CSIAddonsNode.
func (p *Pool) Close(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(name)
}

// CloseAll closes all connections.
func (p *Pool) CloseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.links {
		p.remove(name)
	}
}

// Of returns the connected sidecar of a CSIAddonsNode, or nil.
func (p *Pool) Of(name types.NamespacedName) *Sidecar {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.links[name]; found != nil {
		return found.sidecar
	}
	return nil
}

// OfDriver returns the connected sidecars of a driver that have all capabilities, in the order of
// their pods.
func (p *Pool) OfDriver(driver string, capabilities ...string) []*Sidecar {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*Sidecar
	for _, l := range p.links {
		if l.Driver == driver && l.sidecar != nil && l.sidecar.Has(capabilities...) {
			found = append(found, l.sidecar)
		}
	}
	slices.SortFunc(found, func(a, b *Sidecar) int {
		return strings.Compare(a.Pod.String(), b.Pod.String())
	})
	return found
}

// OnNode returns the connected sidecar of a driver on a node that has all capabilities, or nil. If
// there are several, it is that of the first pod by name.
func (p *Pool) OnNode(driver, node string, capabilities ...string) *Sidecar {
	for _, sidecar := range p.OfDriver(driver, capabilities...) {
		if sidecar.Node == node {
			return sidecar
		}
	}
	return nil
}

// Leader returns the sidecar of the pod that is the leader of a driver and has all capabilities, or
// nil if the controller is not connected to it. The Lease of the driver names the pod; only pods
// with the controller service of the driver may write it.
func (p *Pool) Leader(ctx context.Context, driver string, capabilities ...string,
) (*Sidecar, error) {
	var name types.NamespacedName
	var lease *coordinationv1.Lease
	for _, one := range p.OfDriver(driver, append(capabilities, ControllerService)...) {
		if one.Pod.Namespace != name.Namespace {
			name = types.NamespacedName{Namespace: one.Pod.Namespace, Name: wire.LeaseName(driver)}
			lease = &coordinationv1.Lease{}
			if err := p.leases.Get(ctx, name, lease); err != nil && !apierrors.IsNotFound(err) {
				return nil, fmt.Errorf("reading Lease %s: %w", name, err)
			}
		}
		if ptr.Deref(lease.Spec.HolderIdentity, "") == wire.LeaseHolder(one.Pod.Name) {
			return one, nil
		}
	}
	return nil, nil
}
