// Package connection connects the controller of CSI-Addons to sidecars: a pool with a connection
// for each CSIAddonsNode, tokens for single pods, and the choice of the sidecar for an operation.
package connection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
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
	// connected contains the connected sidecars of each driver, and of each driver on each node.
	connected map[place][]*Sidecar
}

// place is a driver on a node, or on all nodes if the node is "".
type place struct{ driver, node string }

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
		connected: map[place][]*Sidecar{},
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
	if err == nil { // gRPC allows calls some time before it reports that the connection is ready
		to.connection.WaitForStateChange(ctx, connectivity.Connecting)
	}
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
// does not close it, because the sidecar may still answer calls in flight. On a busy machine it may
// not see each state, so it does not rely on the previous one.
func (p *Pool) watch(ctx context.Context, name types.NamespacedName, l *link) {
	since := time.Now()
	for state := l.connection.GetState(); state != connectivity.Shutdown; {
		if state != connectivity.Ready && p.down(l) {
			p.lost(name, time.Since(since))
		}
		since = time.Now()
		if !l.connection.WaitForStateChange(ctx, state) {
			return
		}
		state = l.connection.GetState()
	}
}

// down marks a connection as down. It returns false if it was not up.
func (p *Pool) down(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	wasUp := l.sidecar != nil
	p.up(l, nil)
	return wasUp
}

// up sets the sidecar of a connection, or nil if the connection is down.
func (p *Pool) up(l *link, sidecar *Sidecar) {
	if l.sidecar != nil {
		p.metrics.Connected(l.Driver, -1)
	}
	if sidecar != nil {
		p.metrics.Connected(l.Driver, 1)
	}
	for _, at := range []place{{l.Driver, ""}, {l.Driver, l.Node}} {
		all := slices.DeleteFunc(p.connected[at], func(one *Sidecar) bool { return one == l.sidecar })
		if sidecar != nil {
			all = append(all, sidecar)
		}
		p.connected[at] = all
		if len(all) == 0 {
			delete(p.connected, at)
		}
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

// Any returns whether a connected sidecar of a driver has all capabilities.
func (p *Pool) Any(driver string, capabilities ...string) bool {
	for range p.at(place{driver: driver}, capabilities) {
		return true
	}
	return false
}

// OnNode returns the connected sidecar of a driver on a node that has all capabilities, or nil. If
// there are several, it is that of the first pod by name.
func (p *Pool) OnNode(driver, node string, capabilities ...string) *Sidecar {
	var first *Sidecar
	for one := range p.at(place{driver, node}, capabilities) {
		if first == nil || one.Pod.String() < first.Pod.String() {
			first = one
		}
	}
	return first
}

// Leader returns the sidecar of the pod that is the leader of a driver and has all capabilities, or
// nil if the controller is not connected to it. The Lease of the driver names the pod; only pods
// with the controller service of the driver may write it. If there is a leader in several
// namespaces, it is that of the first namespace by name. Leader also returns whether there is a
// Lease. Without one the driver has no controller service, whatever sidecars on nodes declare.
func (p *Pool) Leader(ctx context.Context, driver string, capabilities ...string,
) (leader *Sidecar, hasLease bool, err error) {
	candidates := map[string][]*Sidecar{}
	for one := range p.at(place{driver: driver}, append(capabilities, ControllerService)) {
		candidates[one.Pod.Namespace] = append(candidates[one.Pod.Namespace], one)
	}
	for _, namespace := range slices.Sorted(maps.Keys(candidates)) {
		name := types.NamespacedName{Namespace: namespace, Name: wire.LeaseName(driver)}
		lease := &coordinationv1.Lease{}
		if err := p.leases.Get(ctx, name, lease); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, false, fmt.Errorf("reading Lease %s: %w", name, err)
		}
		hasLease = true
		for _, one := range candidates[namespace] {
			if ptr.Deref(lease.Spec.HolderIdentity, "") == wire.LeaseHolder(one.Pod.Name) {
				return one, true, nil
			}
		}
	}
	return nil, hasLease, nil
}

// at returns the connected sidecars at a place that have all capabilities, in any order. The pool
// does not change while the caller iterates.
func (p *Pool) at(where place, capabilities []string) iter.Seq[*Sidecar] {
	return func(yield func(*Sidecar) bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, one := range p.connected[where] {
			if one.Has(capabilities...) && !yield(one) {
				return
			}
		}
	}
}
