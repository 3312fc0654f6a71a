// Package connection connects the controller of CSI-Addons to sidecars: a pool with a connection
// for each CSIAddonsNode, tokens for single pods, and the choice of the sidecar for an operation.
package connection

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/metrics"
)

// maxConnections limits the connections of a pool. A sidecar runs in each pod of a driver, so this
// is enough for two drivers on 5,000 nodes.
const maxConnections = 10_000

// Pool contains a connection for each CSIAddonsNode. It is safe for concurrent use.
type Pool struct {
	tokens  *Tokens
	metrics *metrics.Metrics
	// lost receives the CSIAddonsNode of each connection that is lost.
	lost func(types.NamespacedName)

	mu       sync.Mutex
	sidecars map[types.NamespacedName]*Sidecar
}

// NewPool returns an empty pool. The function lost must not block.
func NewPool(tokens *Tokens, m *metrics.Metrics, lost func(types.NamespacedName)) *Pool {
	return &Pool{
		tokens: tokens, metrics: m, lost: lost, sidecars: map[types.NamespacedName]*Sidecar{},
	}
}

// Connect connects to the sidecar of a CSIAddonsNode, unless it is connected already, and returns
// the capabilities of the driver. If the target has changed, it closes the previous connection.
func (p *Pool) Connect(ctx context.Context, name types.NamespacedName, target Target,
) ([]string, error) {
	sidecar, err := p.prepare(ctx, name, target)
	if err != nil {
		return nil, err
	}
	capabilities, err := sidecar.describe(ctx)
	if err != nil {
		p.down(sidecar)
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
	found := p.sidecars[name]
	if found != nil && found.Target == target {
		found.connection.Connect()
		return found, nil
	}
	if found == nil && len(p.sidecars) >= maxConnections {
		return nil, fmt.Errorf("there are %d connections already", maxConnections)
	}
	p.remove(name)
	sidecar, err := dial(target, p.tokens)
	if err != nil {
		return nil, err
	}
	p.sidecars[name] = sidecar
	go sidecar.watch(context.WithoutCancel(ctx), func() {
		p.down(sidecar)
		p.lost(name)
	})
	return sidecar, nil
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

// CloseAll closes all connections.
func (p *Pool) CloseAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.sidecars {
		p.remove(name)
	}
}

func (p *Pool) remove(name types.NamespacedName) {
	if found := p.sidecars[name]; found != nil {
		delete(p.sidecars, name)
		p.down(found)
		found.close()
	}
}

// Find returns the connected sidecars that a function accepts, in the order of their pods.
func (p *Pool) Find(accept func(*Sidecar) bool) []*Sidecar {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*Sidecar
	for _, sidecar := range p.sidecars {
		if accept(sidecar) && sidecar.Has() {
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
