package operator

import (
	"context"
	"strings"
	"sync"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
)

// missingRoles creates the roles of a driver that do not exist, all at the same time, and then the
// bindings.
//
// The API server lists all bindings to check whether the operator may grant the permissions. The
// list is consistent, so it waits up to 100 ms until the API server knows that its cache contains
// all changes. One after the other, the objects of a driver take more than a second.
type missingRoles struct {
	clients *resourceapply.ClientHolder
	read    resourceapply.AssetFunc
	events  events.Recorder

	// roles and bindings contain a function for each asset that returns whether its object exists.
	roles, bindings map[string]func() bool
}

// add adds an object if it is a role or a binding.
func (m *missingRoles) add(kind, asset string, exists func() bool) {
	switch {
	case strings.HasSuffix(kind, "Role"):
		m.roles[asset] = exists
	case strings.HasSuffix(kind, "RoleBinding"):
		m.bindings[asset] = exists
	}
}

// before returns sync, whose first call creates the objects before. It leaves errors to sync, which
// applies the same objects.
func (m *missingRoles) before(sync factory.SyncFunc) factory.SyncFunc {
	isFirst := true // a controller has one worker
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		if isFirst {
			isFirst = false
			m.create(ctx, m.roles)
			m.create(ctx, m.bindings)
		}
		return sync(ctx, syncCtx)
	}
}

func (m *missingRoles) create(ctx context.Context, objects map[string]func() bool) {
	var creations sync.WaitGroup
	for asset, exists := range objects {
		if !exists() {
			creations.Go(func() {
				resourceapply.ApplyDirectly(ctx, m.clients, m.events, resourceapply.NewResourceCache(), m.read,
					asset)
			})
		}
	}
	creations.Wait()
}
