// Package guard detects other controllers of CSI-Addons in a cluster. Two controllers would execute
// each operation twice.
package guard

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of the objects of the CSI-Addons for Ceph.
const (
	// LeaseName is the name of the Lease of its controller.
	LeaseName = "e8cd140a.openshift.io"
	// DeploymentName is the name of the Deployment of its controller, and of ours.
	DeploymentName = "csi-addons-controller-manager"
)

const (
	// defaultLease is the duration of a Lease that does not name one.
	defaultLease = 15 * time.Second
	maxLease     = 10 * time.Minute
	// grace is added to the duration of a Lease before it counts as expired.
	grace = 5 * time.Second
)

// Guard watches the Lease and the Deployment of other controllers.
type Guard struct {
	// Cache contains the Leases and Deployments above, in the namespaces of other controllers.
	Cache cache.Cache
	// Own is the namespace of this controller, whose Deployment has the same name.
	Own   string
	Clock clock.WithTicker

	seen map[types.NamespacedName]renewal
}

// renewal is the last renewal of a Lease, and when this process has seen it. So the clocks of the
// two controllers may differ.
type renewal struct {
	text string
	at   time.Time
}

// Run sends the description of another controller, or "" without one, at the start and after each
// change, until ctx is done.
func (g *Guard) Run(ctx context.Context, found chan<- string) error {
	changed := make(chan struct{}, 1)
	for _, object := range []client.Object{&coordinationv1.Lease{}, &appsv1.Deployment{}} {
		if err := g.watch(ctx, object, changed); err != nil {
			return err
		}
	}
	last, first := "", true
	for {
		other, check, err := g.find(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the program ends
		case err != nil:
			return err
		}
		if first || other != last {
			select {
			case found <- other:
				last, first = other, false
			case <-ctx.Done():
				return nil
			}
		}
		var expiry <-chan time.Time
		if check > 0 {
			expiry = g.Clock.After(check)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-expiry:
		}
	}
}

func (g *Guard) watch(ctx context.Context, object client.Object, changed chan<- struct{}) error {
	informer, err := g.Cache.GetInformer(ctx, object)
	if err != nil {
		return fmt.Errorf("watching other controllers: %w", err)
	}
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	})
	return err
}

// find describes another controller, and returns when a Lease may expire; 0 means never.
func (g *Guard) find(ctx context.Context) (string, time.Duration, error) {
	var others []string
	var check time.Duration
	var leases coordinationv1.LeaseList
	if err := g.Cache.List(ctx, &leases); err != nil {
		return "", 0, fmt.Errorf("listing Leases: %w", err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		remaining := g.remaining(lease)
		if lease.Name != LeaseName || remaining <= 0 {
			continue
		}
		others = append(others, fmt.Sprintf("the Lease %s/%s", lease.Namespace, lease.Name))
		if check == 0 || remaining < check {
			check = remaining
		}
	}
	var deployments appsv1.DeploymentList
	if err := g.Cache.List(ctx, &deployments); err != nil {
		return "", 0, fmt.Errorf("listing Deployments: %w", err)
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if d.Name == DeploymentName && d.Namespace != g.Own && ptr.Deref(d.Spec.Replicas, 1) > 0 {
			others = append(others, fmt.Sprintf("the Deployment %s/%s", d.Namespace, d.Name))
		}
	}
	slices.Sort(others)
	return strings.Join(others, " and "), check, nil
}

// remaining returns how long the holder of a Lease counts as running.
func (g *Guard) remaining(lease *coordinationv1.Lease) time.Duration {
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
		return 0
	}
	if g.seen == nil {
		g.seen = map[types.NamespacedName]renewal{}
	}
	name := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
	text := lease.Spec.RenewTime.String()
	if known, ok := g.seen[name]; !ok || known.text != text {
		g.seen[name] = renewal{text: text, at: g.Clock.Now()}
	}
	duration := defaultLease
	if seconds := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0); seconds > 0 {
		duration = min(time.Duration(seconds)*time.Second, maxLease)
	}
	return g.seen[name].at.Add(duration + grace).Sub(g.Clock.Now())
}
