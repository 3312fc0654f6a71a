package cluster_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const controlPlane = "clusters-a"

// hosted returns a HostedControlPlane as the API server returns it.
func hosted(namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	gvk := cluster.HostedControlPlanes().GroupVersion().WithKind("HostedControlPlane")
	object.SetGroupVersionKind(gvk)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

func deleted(object *unstructured.Unstructured) *unstructured.Unstructured {
	object.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	object.SetFinalizers([]string{"hypershift.openshift.io/finalizer"})
	return object
}

// withHosted returns a HyperShift fake whose management cluster contains the objects.
func withHosted(t *testing.T, objects ...*unstructured.Unstructured) *clustertest.Fake {
	t.Helper()
	f := clustertest.New(t, clustertest.Seed{
		Flavour:           flavour.HyperShift,
		OperatorNamespace: controlPlane, DriverNamespace: "driver",
	})
	for _, object := range objects {
		client := f.Side(flavour.ControlPlane).Dynamic.Resource(cluster.HostedControlPlanes()).
			Namespace(object.GetNamespace())
		if _, err := client.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.Start(t)
	return f
}

func TestHostedControlPlaneIsDecoded(t *testing.T) {
	t.Parallel()
	seconds := int64(30)
	spec := map[string]any{
		"nodeSelector": map[string]any{"role": "infra"},
		"tolerations": []any{map[string]any{
			"key": "k", "operator": "Exists",
			"tolerationSeconds": seconds,
		}},
		"labels":                       map[string]any{"team": "a"},
		"controllerAvailabilityPolicy": "HighlyAvailable",
	}
	full := cluster.HostedControlPlaneSpec{
		NodeSelector: map[string]string{"role": "infra"},
		Tolerations: []corev1.Toleration{{
			Key: "k", Operator: corev1.TolerationOpExists,
			TolerationSeconds: &seconds,
		}},
		Labels:                       map[string]string{"team": "a"},
		ControllerAvailabilityPolicy: cluster.HighlyAvailable,
	}
	for _, test := range []struct {
		name    string
		objects []*unstructured.Unstructured
		want    cluster.HostedControlPlaneSpec
	}{
		{"all that is followed", []*unstructured.Unstructured{hosted(controlPlane, "a", spec)}, full},
		{
			"no policy",
			[]*unstructured.Unstructured{hosted(controlPlane, "a", map[string]any{})},
			cluster.HostedControlPlaneSpec{ControllerAvailabilityPolicy: cluster.SingleReplica},
		},
		{
			"single",
			[]*unstructured.Unstructured{hosted(controlPlane, "a",
				map[string]any{"controllerAvailabilityPolicy": "SingleReplica"})},
			cluster.HostedControlPlaneSpec{ControllerAvailabilityPolicy: cluster.SingleReplica},
		},
		{
			"fields that are not followed",
			[]*unstructured.Unstructured{hosted(controlPlane, "a",
				map[string]any{"platform": map[string]any{"type": "OpenStack"}, "pullSecret": int64(1)})},
			cluster.HostedControlPlaneSpec{ControllerAvailabilityPolicy: cluster.SingleReplica},
		},
		{"another in another namespace", []*unstructured.Unstructured{
			hosted(controlPlane, "a", spec),
			hosted("clusters-b", "b", nil),
		}, full},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := withHosted(t, test.objects...).HostedControlPlane()
			assert.NilError(t, err)
			if diff := cmp.Diff(test.want, got.Spec); diff != "" || got.Name != "a" ||
				got.Namespace != controlPlane {
				t.Errorf("%s/%s (-want +got):\n%s", got.Namespace, got.Name, diff)
			}
		})
	}
}

func TestUnusableHostedControlPlaneIsAnError(t *testing.T) {
	t.Parallel()
	const place = "in namespace clusters-a of the management cluster"
	for _, test := range []struct {
		name    string
		objects []*unstructured.Unstructured
		// want contains parts of the message: what is wrong, where, and what to do.
		want []string
	}{
		{"none", nil, []string{
			"no HostedControlPlane is " + place, "stay unchanged",
			"remove an operator that was left behind",
		}},
		{
			"only elsewhere",
			[]*unstructured.Unstructured{hosted("clusters-b", "b", nil)},
			[]string{"no HostedControlPlane is " + place},
		},
		{
			"two",
			[]*unstructured.Unstructured{hosted(controlPlane, "b", nil), hosted(controlPlane, "a", nil)},
			[]string{
				"2 HostedControlPlanes are " + place + " (a, b)", "stay unchanged",
				"delete all others",
			},
		},
		{
			"three, of which one is being deleted",
			[]*unstructured.Unstructured{
				hosted(controlPlane, "c", nil),
				deleted(hosted(controlPlane, "b", nil)), hosted(controlPlane, "a", nil),
			},
			[]string{"3 HostedControlPlanes are " + place + " (a, b, c)"},
		},
		{
			"being deleted",
			[]*unstructured.Unstructured{deleted(hosted(controlPlane, "a", nil))},
			[]string{"HostedControlPlane a " + place + " is being deleted", "stay unchanged"},
		},
		{
			"labels and a node selector that no pod may have",
			[]*unstructured.Unstructured{hosted(controlPlane, "a", map[string]any{
				"labels": map[string]any{"team": "a b"}, "nodeSelector": map[string]any{"not valid": ""},
			})},
			[]string{
				"the HostedControlPlane " + place + ": a: ", "spec.labels: Invalid value: \"a b\"",
				"spec.nodeSelector", "stay unchanged until it is fixed",
			},
		},
		{
			"not to be decoded",
			[]*unstructured.Unstructured{hosted(controlPlane, "a",
				map[string]any{"nodeSelector": "master"})},
			[]string{
				"decoding the HostedControlPlane " + place + ": a: ", "spec.nodeSelector",
				"stay unchanged until it is fixed",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := withHosted(t, test.objects...)
			_, first := f.HostedControlPlane()
			assert.Assert(t, first != nil, "got no error")
			for _, part := range test.want {
				assert.Check(t, strings.Contains(first.Error(), part), "%q does not say %q", first, part)
			}
			// Each change of the message would cause a write of the status, and an event.
			for range 10 {
				if _, err := f.HostedControlPlane(); err == nil || err.Error() != first.Error() {
					t.Fatalf("first %q, then %q", first, err)
				}
			}
		})
	}
}

// The cache counts as synced after the error; a later successful list clears the error.
func TestListErrorOfHostedControlPlanesIsReported(t *testing.T) {
	t.Parallel()
	resource := cluster.HostedControlPlanes().GroupResource()
	for name, test := range map[string]struct {
		refusal error
		want    []string
	}{
		"no permissions": {
			apierrors.NewForbidden(resource, "", errors.New("account x may not list")),
			[]string{
				"account x may not list", "namespace clusters-a of the management cluster",
				"stay unchanged", "the operator's Role",
			},
		},
		"no such resource": {
			apierrors.NewNotFound(resource, ""),
			[]string{"not found", "CustomResourceDefinition"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clustertest.New(t, clustertest.Seed{
				Flavour: flavour.HyperShift, OperatorNamespace: controlPlane, DriverNamespace: "driver",
				HostedControlPlanes: []*cluster.HostedControlPlane{{
					ObjectMeta: metav1.ObjectMeta{Namespace: controlPlane, Name: "a"},
				}},
			})
			var granted atomic.Bool
			client := f.Side(flavour.ControlPlane).Dynamic.(*dynamicfake.FakeDynamicClient)
			client.PrependReactor("list", resource.Resource,
				func(clienttesting.Action) (bool, runtime.Object, error) {
					return !granted.Load(), nil, test.refusal
				})
			f.Start(t)
			_, err := f.HostedControlPlane()
			assert.Assert(t, err != nil, "got no error")
			for _, part := range test.want {
				assert.Check(t, strings.Contains(err.Error(), part), "%q does not say %q", err, part)
			}
			granted.Store(true)
			last := err
			if wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true,
				func(context.Context) (bool, error) {
					_, last = f.HostedControlPlane()
					return last == nil, nil
				}) != nil {
				t.Errorf("with the permissions the error is still %q", last)
			}
		})
	}
}

// The cache keeps only the fields that operators read, from the first list and from updates.
func TestHostedControlPlaneIsTrimmedInMemory(t *testing.T) {
	t.Parallel()
	bulky := func(label string) *unstructured.Unstructured {
		object := hosted(controlPlane, "a", map[string]any{"labels": map[string]any{"l": label}})
		object.Object["status"] = map[string]any{"ready": true}
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "hypershift"}})
		return object
	}
	f := withHosted(t, bulky("first"))
	client := f.Side(flavour.ControlPlane).Dynamic.Resource(cluster.HostedControlPlanes()).
		Namespace(controlPlane)
	for _, label := range []string{"first", "second"} {
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true,
			func(context.Context) (bool, error) {
				// Repeated, because the fake loses an update between the informer's list and its watch.
				if _, err := client.Update(t.Context(), bulky(label), metav1.UpdateOptions{}); err != nil {
					return false, err
				}
				got, err := f.HostedControlPlane()
				return err == nil && got.Spec.Labels["l"] == label, err
			})
		assert.NilError(t, err, "waiting for the %s", label)
		for _, cached := range f.HostedControlPlanes.GetStore().List() {
			object, ok := cached.(*unstructured.Unstructured)
			assert.Assert(t, ok, "the cache holds a %T", cached)
			if _, found := object.Object["status"]; found || object.GetManagedFields() != nil {
				t.Errorf("the %s is cached as %v", label, object.Object)
			}
		}
	}
}

// The operator's RBAC in the management cluster is limited to the namespace.
func TestHostedControlPlanesAreReadFromOneNamespace(t *testing.T) {
	t.Parallel()
	f := withHosted(t, hosted(controlPlane, "a", nil), hosted("clusters-b", "b", nil))
	if cached := f.HostedControlPlanes.GetStore().ListKeys(); !cmp.Equal(cached,
		[]string{controlPlane + "/a"}) {
		t.Errorf("the cache holds %q", cached)
	}
	asked := func(side flavour.Side) (reads []string) {
		client, ok := f.Side(side).Dynamic.(*dynamicfake.FakeDynamicClient)
		if !ok {
			t.Fatalf("the %s side has a %T", side, f.Side(side).Dynamic)
		}
		for _, action := range client.Actions() {
			_, lists := action.(clienttesting.ListAction)
			_, watches := action.(clienttesting.WatchAction)
			if action.GetResource() == cluster.HostedControlPlanes() && (lists || watches) {
				reads = append(reads, action.GetNamespace())
			}
		}
		return reads
	}
	reads := asked(flavour.ControlPlane)
	assert.Check(t, len(reads) != 0, "the management cluster was not asked")
	for _, namespace := range reads {
		assert.Check(t, namespace == controlPlane,
			"the management cluster was asked about namespace %q", namespace)
	}
	if reads := asked(flavour.Guest); reads != nil {
		t.Errorf("the guest was asked about namespaces %q", reads)
	}
}

func TestStandaloneHasNoHostedControlPlanes(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{})
	f.Start(t)
	assert.Check(t, f.HostedControlPlanes == nil, "there is an informer")
}
