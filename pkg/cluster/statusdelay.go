package cluster

import (
	"maps"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/openshift/library-go/pkg/controller/factory"
)

// statusDelay is the time between the first change of a status and its event.
const statusDelay = 20 * time.Second

// DelayStatus returns the informer of the ClusterCSIDriver for controllers that send requests for
// many objects in each sync: changes of only the status cause one event after statusDelay. The
// operator itself changes the status many times while it starts and while workloads roll out. These
// controllers need such an event only to repair their conditions after others changed them.
func DelayStatus(driver factory.Informer) factory.Informer { return statusDelayer{driver} }

type statusDelayer struct{ factory.Informer }

func (d statusDelayer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	var waiting atomic.Bool
	return d.Informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: handler.OnAdd, DeleteFunc: handler.OnDelete,
		UpdateFunc: func(before, after any) {
			switch {
			case !onlyStatusDiffers(before, after):
				handler.OnUpdate(before, after)
			case waiting.CompareAndSwap(false, true):
				time.AfterFunc(statusDelay, func() {
					waiting.Store(false)
					handler.OnUpdate(before, after)
				})
			}
		},
	})
}

// onlyStatusDiffers compares the parts of the ClusterCSIDriver that people change.
func onlyStatusDiffers(before, after any) bool {
	a, isA := before.(*unstructured.Unstructured)
	b, isB := after.(*unstructured.Unstructured)
	return isA && isB && a.GetUID() == b.GetUID() && maps.Equal(a.GetLabels(), b.GetLabels()) &&
		maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		equality.Semantic.DeepEqual(a.Object["spec"], b.Object["spec"])
}
