package cluster

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/openshift/library-go/pkg/controller/factory"
)

// Generation identifies the spec of one object: another object of its name begins anew. The zero
// value stands for none.
type Generation struct {
	UID    types.UID
	Number int64
}

// Of returns the number if it is of the object with this UID, else 0.
func (g Generation) Of(uid types.UID) int64 {
	if g.UID != uid {
		return 0
	}
	return g.Number
}

// Generation returns that of the object in the cache. A spec that is read later is not older.
func (c *Cluster) Generation() Generation {
	object, err := c.Operator.GetObjectMeta()
	if err != nil { // there is no object
		return Generation{}
	}
	return Generation{object.UID, object.Generation}
}

// Completion records which generation each of several controllers has completed.
type Completion struct {
	// Signal is notified when Lowest changes.
	Signal

	mu        sync.Mutex
	completed []Generation
}

// Add adds a controller. It must be called before the controllers run. The result records what the
// controller has completed.
func (c *Completion) Add() (completes func(Generation)) {
	i := len(c.completed)
	c.completed = append(c.completed, Generation{})
	return func(now Generation) {
		c.mu.Lock()
		before := c.lowest()
		c.completed[i] = now
		changed := c.lowest() != before
		c.mu.Unlock()
		if changed {
			c.Notify()
		}
	}
}

// Lowest returns the generation that all controllers have completed.
func (c *Completion) Lowest() Generation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lowest()
}

func (c *Completion) lowest() Generation {
	var lowest Generation
	for i, one := range c.completed {
		switch {
		case i > 0 && one.UID != lowest.UID:
			return Generation{}
		case i == 0 || one.Number < lowest.Number:
			lowest = one
		}
	}
	return lowest
}

// ErrUnfinished is the result of a sync that did not fail, but waits for something else.
var ErrUnfinished = errors.New("the controller waits for something else")

// Configuring is WhileManaged for a controller that writes what pods or StorageClasses need. A sync
// without an error completes the generation that it began with. If it has written objects that
// hooks of workloads read, it must return ErrUnfinished until the cache contains them: a workload
// completes a generation only in a sync that began after all of these controllers have.
func (c *Cluster) Configuring(sync factory.SyncFunc) factory.SyncFunc {
	completes := c.Configured.Add()
	return WhileManaged(c.Operator, func(ctx context.Context, syncCtx factory.SyncContext) error {
		now := c.Generation()
		err := sync(ctx, syncCtx)
		if err == nil {
			completes(now)
		}
		if errors.Is(err, ErrUnfinished) {
			return nil
		}
		return err
	})
}
