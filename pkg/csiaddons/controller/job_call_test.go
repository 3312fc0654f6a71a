package controller

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// reclaimer is a sidecar that reclaims space on its node.
type reclaimer func(context.Context) (*wire.ReclaimSpaceResponse, error)

func (r reclaimer) NodeReclaimSpace(ctx context.Context, _ *wire.ReclaimSpaceRequest,
	_ ...grpc.CallOption,
) (*wire.ReclaimSpaceResponse, error) {
	return r(ctx)
}

func (reclaimer) ControllerReclaimSpace(context.Context, *wire.ReclaimSpaceRequest,
	...grpc.CallOption,
) (*wire.ReclaimSpaceResponse, error) {
	return nil, status.Error(codes.Unimplemented, "only on nodes")
}

// calling returns a reconciler of a job whose volume is used on a node with a sidecar.
func calling(t *testing.T, reclaims reclaimer) (*Jobs, reconcile.Request) {
	t.Helper()
	job := jobFor("job", "data")
	job.UID = "1"
	r := newReconciler(t, job, claimOfTenant("1", corev1.ClaimBound), volumeFor("1"), attachment())
	sidecar := connected("node", "used", connection.NodeService, connection.ReclaimOnline)
	sidecar.ReclaimSpace = reclaims
	r.Sidecars = fakeSidecars{all: []*connection.Sidecar{sidecar}}
	return r, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(job)}
}

// The API server can apply a write although the controller gets no answer. The bytes of the call
// count once.
func TestResultOfACallIsRecordedOnce(t *testing.T) {
	t.Parallel()
	calls := 0
	r, request := calling(t, func(context.Context) (*wire.ReclaimSpaceResponse, error) {
		calls++
		return usage(30, 10), nil
	})
	lose := true
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			options ...client.SubResourceUpdateOption,
		) error {
			err := c.SubResource(sub).Update(ctx, o, options...)
			if lose && calls > 0 {
				lose, err = false, errors.Join(err, errors.New("no answer"))
			}
			return err
		},
	})
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.ReclaimSpaceJob
	if err := r.Client.Get(t.Context(), request.NamespacedName, &got); err != nil {
		t.Fatal(err)
	}
	space := got.Status.ReclaimedSpace
	if lose || calls != 1 || got.Status.Result != v1alpha1.OperationSucceeded || space == nil ||
		space.Value() != 20 {
		t.Errorf("after %d calls, the status is %+v, want 20 reclaimed bytes", calls, got.Status)
	}
}

// The deletion of a job ends its call, and so does the end of the controller, after which the next
// leader repeats the call.
func TestCancelledCallHasNoResult(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Jobs, client.Object, context.CancelFunc){
		"a deletion": func(r *Jobs, job client.Object, _ context.CancelFunc) { r.cancel(job) },
		"the end of the controller": func(_ *Jobs, _ client.Object, cancel context.CancelFunc) {
			cancel()
		},
	} {
		var cancelled func()
		r, request := calling(t, func(ctx context.Context) (*wire.ReclaimSpaceResponse, error) {
			cancelled()
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancelled = func() { end(r, jobFor("job", "data"), cancel) }
		if result, err := r.Reconcile(ctx, request); err != nil || result.RequeueAfter != 0 {
			t.Errorf("%s: the reconciliation ends with %+v, %v", name, result, err)
		}
		cancel()
		var got v1alpha1.ReclaimSpaceJob
		if err := r.Client.Get(t.Context(), request.NamespacedName, &got); err != nil {
			t.Fatal(err)
		}
		if got.Status.Result != "" || got.Status.Retries != 0 || got.Status.Reason != ReasonStarted {
			t.Errorf("after %s, the status is %+v", name, got.Status)
		}
		if r.limits.calls != 0 {
			t.Errorf("after %s, %d calls run", name, r.limits.calls)
		}
	}
}

// The previous release wrote status.queueSeconds and the reason Turn.
func TestJobOfAnEarlierReleaseIsFinished(t *testing.T) {
	t.Parallel()
	for name, written := range map[string]string{
		"in the queue": `{"queueSeconds": 600, "step": "Waiting", "reason": "TooManyCalls",
			"conditions": [{"type": "Queued", "status": "True", "reason": "TooManyCalls"},
			{"type": "Running", "status": "False", "reason": "TooManyCalls"}]}`,
		"out of the queue": `{"queueSeconds": 600, "step": "Node", "reason": "Started", "retries": 1,
			"conditions": [{"type": "Queued", "status": "False", "reason": "Turn"},
			{"type": "Running", "status": "True", "reason": "Started"}]}`,
	} {
		r, request := calling(t, func(context.Context) (*wire.ReclaimSpaceResponse, error) {
			return usage(30, 10), nil
		})
		var got v1alpha1.ReclaimSpaceJob
		err := r.Client.Get(t.Context(), request.NamespacedName, &got)
		if err == nil {
			err = json.Unmarshal([]byte(written), &got.Status)
		}
		if err == nil {
			err = r.Client.Status().Update(t.Context(), &got)
		}
		if err == nil {
			_, err = r.Reconcile(t.Context(), request)
		}
		if err == nil {
			err = r.Client.Get(t.Context(), request.NamespacedName, &got)
		}
		if err != nil || got.Status.Result != v1alpha1.OperationSucceeded {
			t.Errorf("a job %s ends with %+v, %v", name, got.Status, err)
		}
	}
}

// attachment returns the VolumeAttachment of the volume "pv" to the node "used".
func attachment() *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: storagev1.VolumeAttachmentSpec{
			NodeName: "used",
			Source:   storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv")},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	}
}

// The first write fails if the cache is outdated. The status must not name the previous obstacle
// for as long as the job waits.
func TestStatusOfAQueuedJobIsWrittenAgainAfterAConflict(t *testing.T) {
	t.Parallel()
	r, request := calling(t, nil)
	if !r.limits.acquire(job("runs"), on("a", "", job("runs"))) {
		t.Fatal("the first job has no call")
	}
	refused := false
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object,
			options ...client.SubResourceUpdateOption,
		) error {
			if !refused {
				refused = true
				return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("outdated"))
			}
			return c.SubResource(sub).Update(ctx, o, options...)
		},
	})
	if _, err := r.Reconcile(t.Context(), request); !apierrors.IsConflict(err) {
		t.Errorf("the first attempt ends with %v", err)
	}
	if _, err := r.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var got v1alpha1.ReclaimSpaceJob
	if err := r.Client.Get(t.Context(), request.NamespacedName, &got); err != nil {
		t.Fatal(err)
	}
	if got.Status.Reason != ReasonBusy {
		t.Errorf("the status is %+v", got.Status)
	}
}

func usage(before, after int64) *wire.ReclaimSpaceResponse {
	return &wire.ReclaimSpaceResponse{
		PreUsage:  &wire.StorageConsumption{UsageBytes: before},
		PostUsage: &wire.StorageConsumption{UsageBytes: after},
	}
}
