package cluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// handlers is an informer that passes events of a test on.
type handlers struct{ cache.ResourceEventHandler }

func (h *handlers) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	h.ResourceEventHandler = handler
	return nil, nil
}

func (*handlers) HasSynced() bool { return true }

// Changes of the spec and of annotations are events at once.
func TestStatusIsDelayed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		driver := func(uid, spec, status string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"uid": uid}, "spec": map[string]any{"logLevel": spec},
				"status": map[string]any{"conditions": status},
			}}
		}
		var source handlers
		started := time.Now()
		times := make(chan time.Duration, 10)
		event := func() { times <- time.Since(started) }
		_, _ = cluster.DelayStatus(&source).AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { event() },
			UpdateFunc: func(_, _ any) { event() },
			DeleteFunc: func(any) { event() },
		})
		first := driver("1", "Normal", "")
		source.OnAdd(first, true)
		for _, status := range []string{"a", "b", "c"} {
			source.OnUpdate(first, driver("1", "Normal", status))
		}
		<-time.After(time.Second)
		synctest.Wait()
		source.OnUpdate(first, driver("1", "Debug", "c"))
		source.OnUpdate(first, driver("2", "Normal", ""))
		annotated := driver("1", "Normal", "")
		annotated.SetAnnotations(map[string]string{"a": "b"})
		source.OnUpdate(first, annotated)
		<-time.After(time.Minute)
		synctest.Wait()
		source.OnUpdate(first, driver("1", "Normal", "d"))
		source.OnDelete(first)
		<-time.After(time.Minute)
		synctest.Wait()
		want := []time.Duration{
			0, time.Second, time.Second, time.Second, 20 * time.Second, 61 * time.Second, 81 * time.Second,
		}
		var got []time.Duration
		for len(times) > 0 {
			got = append(got, <-times)
		}
		assert.Check(t, is.DeepEqual(want, got), "times of events")
	})
}
