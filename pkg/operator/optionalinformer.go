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

// refusalPeriod is how long the API server must refuse requests until controllers stop waiting for
// an optional informer. An API server that starts may refuse all requests for a moment.
const refusalPeriod = 10 * time.Second

// optionalInformer is an informer of an object that the driver can work without. Controllers do not
// wait for it while the operator has no permission to watch the object. The informer keeps trying,
// so controllers get the events of the object when the permission is granted.
type optionalInformer struct {
	factory.Informer

	object string // kind and name for messages
	clock  clock.PassiveClock
	events events.Recorder
	// firstRefusal is the time of the first refusal. Only the goroutine of the informer uses it.
	firstRefusal time.Time
	refused      atomic.Bool
}

// newOptionalInformer returns an error if the informer runs already.
func newOptionalInformer(
	informer cache.SharedIndexInformer, object string, c clock.PassiveClock, recorder events.Recorder,
) (*optionalInformer, error) {
	i := &optionalInformer{Informer: informer, object: object, clock: c, events: recorder}
	return i, informer.SetWatchErrorHandlerWithContext(i.handle)
}

// HasSynced returns true if the cache is complete, or if the operator may not fill it.
func (i *optionalInformer) HasSynced() bool { return i.Informer.HasSynced() || i.refused.Load() }

// handle is called when a request of the informer fails.
func (i *optionalInformer) handle(ctx context.Context, r *cache.Reflector, err error) {
	cache.DefaultWatchErrorHandler(ctx, r, err)
	if !apierrors.IsForbidden(err) || i.Informer.HasSynced() || i.refused.Load() {
		return
	}
	now := i.clock.Now()
	if i.firstRefusal.IsZero() {
		i.firstRefusal = now
	}
	if now.Sub(i.firstRefusal) < refusalPeriod {
		return
	}
	i.refused.Store(true)
	klog.FromContext(ctx).Error(err, "The operator may not watch an object of CSI-Addons",
		"object", i.object)
	i.events.Warningf("CSIAddonsForbidden", "The operator may not watch %s, so it runs the driver "+
		"without it. Grant the operator the permissions in the manifests of its release", i.object)
}
