package connection

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A sidecar that answers and drops at once, again and again, must not collect requests for later.
func TestQueueHasOneRequestForEachObject(t *testing.T) {
	t.Parallel()
	q := priorityqueue.New[reconcile.Request]("test")
	defer q.ShutDown()
	dropped, other := types.NamespacedName{Name: "dropped"}, types.NamespacedName{Name: "other"}
	for _, after := range []time.Duration{time.Millisecond, time.Hour, 0, time.Millisecond} {
		Enqueue(q, dropped, First, after)
	}
	Enqueue(q, other, last, 10*time.Millisecond)
	for _, want := range []types.NamespacedName{dropped, other} {
		got, priority, _ := q.GetWithPriority()
		q.Done(got)
		assert.Check(t, got.NamespacedName == want && (priority > 0) == (want == dropped),
			"got %v with priority %d, want %v; that of an event is 0", got, priority, want)
	}
}
