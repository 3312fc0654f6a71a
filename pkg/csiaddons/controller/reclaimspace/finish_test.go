package reclaimspace

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// The API server can apply a write although the controller gets no answer, for example because the
// controller ends. The bytes of the call count once.
func TestResultOfACallIsRecordedOnce(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*Reconciler, reconcile.Request) error{
		"a retry": func(r *Reconciler, request reconcile.Request) error {
			_, err := r.Reconcile(t.Context(), request)
			return err
		},
		"the end of the controller": func(r *Reconciler, _ reconcile.Request) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return r.stopCalls(ctx)
		},
	} {
		running := &v1alpha1.ReclaimSpaceJob{ObjectMeta: metav1.ObjectMeta{
			Namespace: "tenant", Name: "data", UID: "1",
		}}
		running.Spec.Target.PersistentVolumeClaim = "data"
		meta.SetStatusCondition(&running.Status.Conditions, metav1.Condition{
			Type: ConditionRunning, Status: metav1.ConditionTrue, Reason: ReasonStarted,
		})
		r, _ := newReconciler(t, running)
		r.Metrics = r.slots.metrics
		lost := errors.New("no answer")
		r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
				options ...client.SubResourceUpdateOption,
			) error {
				return errors.Join(c.SubResource(sub).Update(ctx, o, options...), lost)
			},
		})
		ended := make(chan types.NamespacedName, 1)
		r.calls.wake = func(job types.NamespacedName) { ended <- job }
		r.calls.start(t.Context(), running, time.Minute, func(context.Context) outcome {
			return outcome{step: v1alpha1.ReclaimSpaceOnNode, driver: "a", answer: usage(30, 10)}
		})
		request := reconcile.Request{NamespacedName: <-ended}
		if _, err := r.Reconcile(t.Context(), request); !errors.Is(err, lost) {
			t.Fatalf("%s: the first attempt ends with %v", name, err)
		}
		if err := again(r, request); err != nil && !errors.Is(err, lost) {
			t.Errorf("%s: %v", name, err)
		}
		got := &v1alpha1.ReclaimSpaceJob{}
		if err := r.Live.Get(t.Context(), request.NamespacedName, got); err != nil {
			t.Fatal(err)
		}
		if space := got.Status.ReclaimedSpace; space == nil || space.Value() != 20 {
			t.Errorf("%s: the job has reclaimed %v bytes, want 20", name, space)
		}
	}
}

func usage(before, after int64) *wire.ReclaimSpaceResponse {
	return &wire.ReclaimSpaceResponse{
		PreUsage:  &wire.StorageConsumption{UsageBytes: before},
		PostUsage: &wire.StorageConsumption{UsageBytes: after},
	}
}
