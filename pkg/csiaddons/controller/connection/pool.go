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

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc/connectivity"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/metrics"
)

// maxPerDriver and maxConnections limit the connections of a pool. A sidecar runs in each pod of a
// driver, so this is enough for two drivers on 5,000 nodes with their controller pods.
const (
	maxPerDriver   = 5_100
	maxConnections = 2 * maxPerDriver
	// maxRestores limits the dropped connections that are restored at the same time.
	maxRestores = 50
)

// Pool contains a connection for each CSIAddonsNode. It is safe for concurrent use.
type Pool struct {
	tokens  *Tokens
	metrics *metrics.Metrics
	// lost receives the CSIAddonsNode of each connection that is lost.
	lost func(types.NamespacedName)
	// restores limits the connections that are restored at the same time.
	restores *semaphore.Weighted

	mu       sync.Mutex
	closed   bool
	sidecars map[types.NamespacedName]*Sidecar
	byDriver map[string]map[types.NamespacedName]*Sidecar
	byNode   map[place]map[types.NamespacedName]*Sidecar
}

// place is a node on which a driver has sidecars.
type place struct{ driver, node string }

// NewPool returns an empty pool. The function lost may block: a connection that is lost waits for
// it, and no other does.
func NewPool(tokens *Tokens, m *metrics.Metrics, lost func(types.NamespacedName)) *Pool {
	return &Pool{
		tokens: tokens, metrics: m, lost: lost, sidecars: map[types.NamespacedName]*Sidecar{},
		byDriver: map[string]map[types.NamespacedName]*Sidecar{},
		byNode:   map[place]map[types.NamespacedName]*Sidecar{},
		restores: semaphore.NewWeighted(maxRestores),
	}
}

// Connect connects to the sidecar of a CSIAddonsNode, unless it is connected already, and returns
// the capabilities of the driver. If the target has changed, it closes the previous connection. It
// does not keep a connection that fails, so nothing connects again without a call of Connect.
func (p *Pool) Connect(ctx context.Context, name types.NamespacedName, target Target,
) ([]string, error) {
	sidecar, err := p.prepare(ctx, name, target)
	if err != nil {
		return nil, err
	}
	capabilities, err := sidecar.describe(ctx)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		p.fail(ctx, name, sidecar)
		return nil, err
	}
	if sidecar.up(capabilities) {
		p.metrics.Connected(target.Driver, 1)
	}
	return capabilities, nil
}

func (p *Pool) prepare(ctx context.Context, name types.NamespacedName, target Target,
) (*Sidecar, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	found := p.sidecars[name]
	if found != nil && found.Target == target {
		found.connection.Connect()
		return found, nil
	}
	p.remove(name)
	if err := p.full(target.Driver); err != nil {
		return nil, err
	}
	sidecar, err := dial(target, p.tokens)
	if err != nil {
		return nil, err
	}
	p.add(name, sidecar)
	watchCtx := context.WithoutCancel(ctx)
	go sidecar.watch(watchCtx, func() {
		if !p.restore(watchCtx, name, sidecar) {
			p.lost(name)
		}
	})
	return sidecar, nil
}

// restore connects again to a sidecar that has closed the connection, for example because it limits
// the age of connections. Meanwhile the connection counts as up. It returns false if the connection
// is down. It does not close the connection, because the sidecar may still answer calls in flight.
func (p *Pool) restore(ctx context.Context, name types.NamespacedName, sidecar *Sidecar) bool {
	if !sidecar.Has() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	if !sidecar.restores.Allow() || p.restores.Acquire(ctx, 1) != nil {
		p.down(sidecar)
		return false
	}
	defer p.restores.Release(1)
	if err := sidecar.confirm(ctx); err != nil {
		log.FromContext(ctx).V(1).Info("Lost the connection", "name", name, "reason", err.Error())
		p.down(sidecar)
		return false
	}
	return true
}

// full returns an error if there may be no other connection for a driver.
func (p *Pool) full(driver string) error {
	switch {
	case p.closed:
		return errors.New("the controller ends")
	case len(p.byDriver[driver]) >= maxPerDriver:
		return fmt.Errorf("there are %d connections for driver %s already", maxPerDriver, driver)
	case len(p.sidecars) >= maxConnections:
		return fmt.Errorf("there are %d connections already", maxConnections)
	}
	return nil
}

// fail marks a connection as lost after an error. It closes the connection, unless the sidecar is
// connected and other calls may run. It always does if the attempt was cancelled.
func (p *Pool) fail(ctx context.Context, name types.NamespacedName, sidecar *Sidecar) {
	p.down(sidecar)
	p.mu.Lock()
	defer p.mu.Unlock()
	cancelled := errors.Is(ctx.Err(), context.Canceled)
	if p.sidecars[name] == sidecar &&
		(cancelled || sidecar.connection.GetState() != connectivity.Ready) {
		p.remove(name)
	}
}

// down marks a connection as lost.
func (p *Pool) down(sidecar *Sidecar) {
	if sidecar.lost() {
		p.metrics.Connected(sidecar.Driver, -1)
	}
}

// Close closes the connection for a CSIAddonsNode.
func (p *Pool) Close(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(name)
}

// CloseAll closes all connections. Connect fails afterwards.
func (p *Pool) CloseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for name := range p.sidecars {
		p.remove(name)
	}
}

func (p *Pool) add(name types.NamespacedName, added *Sidecar) {
	p.sidecars[name] = added
	at := place{added.Driver, added.Node}
	if p.byDriver[at.driver] == nil {
		p.byDriver[at.driver] = map[types.NamespacedName]*Sidecar{}
	}
	if p.byNode[at] == nil {
		p.byNode[at] = map[types.NamespacedName]*Sidecar{}
	}
	p.byDriver[at.driver][name], p.byNode[at][name] = added, added
}

func (p *Pool) remove(name types.NamespacedName) {
	found := p.sidecars[name]
	if found == nil {
		return
	}
	at := place{found.Driver, found.Node}
	delete(p.sidecars, name)
	delete(p.byDriver[at.driver], name)
	delete(p.byNode[at], name)
	if len(p.byNode[at]) == 0 {
		delete(p.byNode, at)
	}
	p.down(found)
	found.close()
}

// OfDriver returns the connected sidecars of a driver that have all capabilities, in the order of
// their pods.
func (p *Pool) OfDriver(driver string, capabilities ...string) []*Sidecar {
	p.mu.Lock()
	defer p.mu.Unlock()
	return having(p.byDriver[driver], capabilities)
}

// OnNode returns the connected sidecars of a driver on a node that have all capabilities, in the
// order of their pods.
func (p *Pool) OnNode(driver, node string, capabilities ...string) []*Sidecar {
	p.mu.Lock()
	defer p.mu.Unlock()
	return having(p.byNode[place{driver, node}], capabilities)
}

func having(sidecars map[types.NamespacedName]*Sidecar, capabilities []string) []*Sidecar {
	var found []*Sidecar
	for _, sidecar := range sidecars {
		if sidecar.Has(capabilities...) {
			found = append(found, sidecar)
		}
	}
	slices.SortFunc(found, func(a, b *Sidecar) int {
		return strings.Compare(a.Pod.String(), b.Pod.String())
	})
	return found
}

// Of returns the connected sidecar of a CSIAddonsNode, or nil.
func (p *Pool) Of(name types.NamespacedName) *Sidecar {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.sidecars[name]; found != nil && found.Has() {
		return found
	}
	return nil
}
