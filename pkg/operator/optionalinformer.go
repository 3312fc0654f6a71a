package operator

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
)

// Controllers stop waiting for an optional informer when the API server has refused minRefusals
// requests in succession, during refusalPeriod. An API server that starts may refuse all requests
// for a moment, once before it stops and again when it is back.
const (
	minRefusals   = 3
	refusalPeriod = 10 * time.Second
	// maxGap is the longest time between two refusals in succession. client-go waits at most one
	// minute, and reports no failed connection in between.
	maxGap = 90 * time.Second
)

// optionalInformer is an informer of an object that the driver can work without. Controllers do not
// wait for it while the operator has no permission to watch the object. The informer keeps trying,
// so controllers get the events of the object when the permission is granted.
type optionalInformer struct {
	factory.Informer

	object string // kind and name for messages
	clock  clock.PassiveClock
	events events.Recorder
	// refusals is the number of refusals in succession, between the times first and last. Only the
	// goroutine of the informer uses them.
	refusals    int
	first, last time.Time
	refused     atomic.Bool
	// onRefusal is called when refused becomes true, if it is set.
	onRefusal func()
}

// newOptionalInformer returns an optional informer. The caller must let the informer call judge
// when a list fails, or handle.
func newOptionalInformer(
	informer factory.Informer, object string, c clock.PassiveClock, recorder events.Recorder,
) *optionalInformer {
	return &optionalInformer{Informer: informer, object: object, clock: c, events: recorder}
}

// HasSynced returns true if the cache is complete, or if the operator may not fill it.
func (i *optionalInformer) HasSynced() bool { return i.Informer.HasSynced() || i.refused.Load() }

// forbidden returns true while the operator may not fill the cache.
func (i *optionalInformer) forbidden() bool { return i.refused.Load() && !i.Informer.HasSynced() }

// handle is called when a request of a shared informer fails.
func (i *optionalInformer) handle(ctx context.Context, r *cache.Reflector, err error) {
	cache.DefaultWatchErrorHandler(ctx, r, err)
	i.judge(ctx, err)
}

// judge decides after a failed list whether the operator lacks the permission.
func (i *optionalInformer) judge(ctx context.Context, err error) {
	if i.Informer.HasSynced() || i.refused.Load() || !i.refusedLong(err) {
		return
	}
	i.refused.Store(true)
	klog.FromContext(ctx).Error(err, "The operator may not watch an object of CSI-Addons",
		"object", i.object)
	i.events.Warningf("CSIAddonsForbidden", "The operator may not watch %s, so it runs the driver "+
		"without it. Grant the operator the permissions in the manifests of its release", i.object)
	if i.onRefusal != nil {
		i.onRefusal()
	}
}

// refusedLong returns whether the API server refuses requests not only for a moment.
func (i *optionalInformer) refusedLong(err error) bool {
	now := i.clock.Now()
	switch {
	case !apierrors.IsForbidden(err):
		i.refusals = 0
		return false
	case i.refusals == 0 || now.Sub(i.last) > maxGap:
		i.refusals, i.first = 0, now
	}
	i.refusals++
	i.last = now
	return i.refusals >= minRefusals && now.Sub(i.first) >= refusalPeriod
}
