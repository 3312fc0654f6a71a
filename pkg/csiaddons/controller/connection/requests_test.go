package connection_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

func TestNamesPrecedeEvents(t *testing.T) {
	t.Parallel()
	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	names := make(connection.Names)
	if err := names.Source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	sent := types.NamespacedName{Name: "sent"}
	names.Send(t.Context(), sent)
	if got, priority, _ := queue.GetWithPriority(); got.NamespacedName != sent || priority <= 0 {
		t.Errorf("got %v with priority %d, want %v with more than that of an event, 0", got, priority,
			sent)
	}
}
