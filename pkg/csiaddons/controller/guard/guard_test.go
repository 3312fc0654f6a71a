package guard_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/guard"
)

// objects is a cache that reads from a fake API server.
type objects struct {
	*informertest.FakeInformers
	client.Client
}

func (o *objects) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	opts ...client.GetOption,
) error {
	return o.Client.Get(ctx, key, object, opts...)
}

func (o *objects) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption,
) error {
	return o.Client.List(ctx, list, opts...)
}

var _ cache.Cache = (*objects)(nil)

// fixture is a running guard.
type fixture struct {
	*testing.T

	objects *objects
	found   chan string
}

func run(t *testing.T, exist ...client.Object) *fixture {
	t.Helper()
	f := &fixture{
		T: t, found: make(chan string),
		objects: &objects{
			FakeInformers: &informertest.FakeInformers{Scheme: scheme.Scheme},
			Client:        fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(exist...).Build(),
		},
	}
	g := &guard.Guard{Cache: f.objects, Own: "own", Clock: clock.RealClock{}}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- g.Run(ctx, f.found) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

// want waits for a description that contains a text; "" means that no other controller is found.
func (f *fixture) want(text string) {
	f.Helper()
	select {
	case got := <-f.found:
		if (text == "") != (got == "") || !strings.Contains(got, text) {
			f.Fatalf("the guard finds %q, want %q", got, text)
		}
	case <-time.After(time.Minute):
		f.Fatalf("the guard does not report %q", text)
	}
}

func lease(namespace, holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: guard.LeaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(15)),
			// The clock of the other controller is wrong by a year.
			RenewTime: &metav1.MicroTime{Time: time.Now().AddDate(-1, 0, 0)},
		},
	}
}

func deployment(namespace string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: guard.DeploymentName},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

func TestGuardReportsAFreeCluster(t *testing.T) {
	t.Parallel()
	released := lease("openshift-storage", "")
	run(t, released, deployment("own", 1), deployment("openshift-storage", 0)).want("")
}

func TestGuardFindsTheDeploymentOfAnotherNamespace(t *testing.T) {
	t.Parallel()
	run(t, deployment("openshift-storage", 1)).want("openshift-storage/" + guard.DeploymentName)
}

func TestLeaseExpiresByTheOwnClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := run(t, lease("own", "odf"))
		f.want("own/" + guard.LeaseName)

		<-time.After(19 * time.Second)
		f.renew()
		<-time.After(19 * time.Second)
		synctest.Wait()
		select {
		case got := <-f.found:
			t.Fatalf("the guard finds %q although the Lease was renewed", got)
		default:
		}
		started := time.Now()
		f.want("")
		if waited := time.Since(started); waited != time.Second {
			t.Errorf("the Lease expires %v after the last renewal, want 20s", 19*time.Second+waited)
		}
	})
}

// renew renews the Lease of the other controller.
func (f *fixture) renew() {
	f.Helper()
	renewed := &coordinationv1.Lease{}
	name := client.ObjectKey{Namespace: "own", Name: guard.LeaseName}
	if err := f.objects.Get(f.Context(), name, renewed); err != nil {
		f.Fatal(err)
	}
	renewed.Spec.RenewTime.Time = renewed.Spec.RenewTime.Add(time.Second)
	if err := f.objects.Update(f.Context(), renewed); err != nil {
		f.Fatal(err)
	}
	informer, err := f.objects.FakeInformerFor(f.Context(), renewed)
	if err != nil {
		f.Fatal(err)
	}
	informer.Add(renewed)
}
