package operator

import (
	"context"
	"strings"
	"sync"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
)

// permissions creates the roles of a driver that do not exist, and then the bindings, those of a
// step at the same time.
//
// The API server lists all bindings to check whether the operator may grant the permissions. The
// list is consistent, so it waits up to 100 ms until the API server knows that its cache contains
// all changes. One after the other, the objects of a driver take more than a second.
type permissions struct {
	clients *resourceapply.ClientHolder
	read    resourceapply.AssetFunc
	events  events.Recorder

	// roles and bindings contain a function for each asset that returns whether its object exists.
	roles, bindings map[string]func() bool
}

// add adds an object if it is a role or a binding.
func (p *permissions) add(kind, asset string, exists func() bool) {
	switch {
	case strings.HasSuffix(kind, "Role"):
		p.roles[asset] = exists
	case strings.HasSuffix(kind, "RoleBinding"):
		p.bindings[asset] = exists
	}
}

// before returns a function that creates the objects, unless isDone returns true, and then calls
// sync. It leaves errors to sync, which applies the same objects.
func (p *permissions) before(sync factory.SyncFunc, isDone func() bool) factory.SyncFunc {
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		if !isDone() {
			p.create(ctx, p.roles)
			p.create(ctx, p.bindings)
		}
		return sync(ctx, syncCtx)
	}
}

func (p *permissions) create(ctx context.Context, objects map[string]func() bool) {
	var creations sync.WaitGroup
	for asset, exists := range objects {
		if !exists() {
			creations.Go(func() {
				resourceapply.ApplyDirectly(ctx, p.clients, p.events, resourceapply.NewResourceCache(), p.read,
					asset)
			})
		}
	}
	creations.Wait()
}
