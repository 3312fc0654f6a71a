package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// newPreflight returns the checks of a controller in the namespace "own" with drivers in the
// namespaces "a" and "b". The function list returns the error of a list in a namespace.
func newPreflight(t *testing.T, list func(namespace string) error, objects ...client.Object,
) *preflight {
	t.Helper()
	known, err := NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []metav1.APIResource
	for _, kind := range []string{
		"CSIAddonsNode", "NetworkFence", "NetworkFenceClass", "ReclaimSpaceCronJob", "ReclaimSpaceJob",
	} {
		kinds = append(kinds, metav1.APIResource{Kind: kind})
	}
	return &preflight{
		settings: &Settings{Namespace: "own", Drivers: connection.Drivers{
			"cinder": {Namespaces: []string{"a"}}, "manila": {Namespaces: []string{"b"}},
		}},
		client: fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
			WithInterceptorFuncs(interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch,
				_ client.ObjectList, options ...client.ListOption,
			) error {
				var all client.ListOptions
				all.ApplyOptions(options)
				return list(all.Namespace)
			}}).Build(),
		cluster: &fakediscovery.FakeDiscovery{Fake: &clienttesting.Fake{
			Resources: []*metav1.APIResourceList{
				{GroupVersion: v1alpha1.GroupVersion().String(), APIResources: kinds},
				{GroupVersion: openShiftGroup + "/v1"},
			},
		}},
	}
}

func lease(namespace, holder string, seconds int32, renewed time.Duration) client.Object {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To(seconds),
			RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-renewed))),
		},
	}
}

func deployment(namespace string, replicas int32) client.Object {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: DeploymentName},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
}

// Two controllers would execute each operation twice. A namespace of a tenant does not count.
func TestOtherControllerPreventsTheStart(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		object client.Object
		want   string // "" means that the controller starts
	}{
		"its own Deployment":             {deployment("own", 1), ""},
		"a Deployment of a tenant":       {deployment("tenant", 1), ""},
		"a Deployment without replicas":  {deployment(storageNamespace, 0), ""},
		"a Deployment":                   {deployment(storageNamespace, 1), DeploymentName},
		"a Lease":                        {lease("own", "odf", 15, time.Minute/4), "own/" + LeaseName},
		"a Lease for a long time":        {lease("own", "odf", 300, 5*time.Minute), "own/" + LeaseName},
		"a released Lease":               {lease("own", "", 15, 0), ""},
		"an old Lease":                   {lease("own", "odf", 15, time.Minute), ""},
		"an old Lease without an end":    {lease("own", "odf", 1<<30, time.Hour), ""},
		"a Lease of OpenShift's storage": {lease(storageNamespace, "odf", 15, 0), LeaseName},
	} {
		p := newPreflight(t, func(string) error { return nil }, one.object)
		err := p.check(t.Context())
		switch {
		case one.want == "" && err != nil:
			t.Errorf("beside %s, the controller does not start: %v", name, err)
		case one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)):
			t.Errorf("beside %s, the check returns %v, want %s", name, err, one.want)
		}
	}
}

func TestControllerStartsWhenItMay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := newPreflight(t, func(namespace string) error {
			switch {
			case time.Since(start) < preflightTimeout/2:
				return errors.New("connection refused")
			case namespace == "b":
				return forbidden()
			}
			return nil
		})
		if err := p.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([][]string{{"a"}, {"b"}}, [][]string{p.served, p.forbidden}); diff != "" {
			t.Errorf("served and forbidden namespaces (-want +got):\n%s", diff)
		}
	})
}

func TestControllerEndsWithTheCauseAfterAMinute(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*preflight){
		"no kinds CSIAddonsNode, NetworkFence": func(p *preflight) {
			p.cluster.(*fakediscovery.FakeDiscovery).Resources = nil
		},
		"csi-addons-driver-role": func(*preflight) {},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPreflight(t, func(string) error { return forbidden() })
			change(p)
			start := time.Now()
			err := p.await(t.Context())
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the controller ends with %v, want %q", err, want)
			}
			if waited := time.Since(start); waited > preflightTimeout {
				t.Errorf("the controller ends after %v", waited)
			}
		})
	}
}

// The process ends when another controller appears, or when it may serve another namespace, and
// survives an outage of the API server.
func TestRunningControllerEndsWhenItMustRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := newPreflight(t, func(namespace string) error {
			switch passed := time.Since(start); {
			case namespace == "b" && passed < 5*time.Minute:
				return forbidden()
			case passed > time.Minute && passed < 10*time.Minute:
				return errors.New("connection refused")
			}
			return nil
		})
		if err := p.await(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := p.Start(t.Context())
		if err == nil || !strings.Contains(err.Error(), "it may read namespace b") {
			t.Errorf("the controller ends with %v", err)
		}
		if passed := time.Since(start); passed < 10*time.Minute || passed > 11*time.Minute {
			t.Errorf("the controller ends after %v", passed)
		}
		other := deployment(storageNamespace, 1)
		if err := p.client.(client.Client).Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if _, ok := errors.AsType[*otherControllerError](p.Start(t.Context())); !ok {
			t.Error("the controller runs beside another one")
		}
	})
}
