package cluster_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

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
		Flavour: flavour.HyperShift, OperatorNamespace: controlPlane, DriverNamespace: "driver",
	})
	for _, object := range objects {
		client := f.Side(flavour.ControlPlane).Dynamic.Resource(cluster.HostedControlPlanes()).
			Namespace(object.GetNamespace())
		_, err := client.Create(t.Context(), object, metav1.CreateOptions{})
		assert.NilError(t, err)
	}
	f.Start(t)
	return f
}

func TestHostedControlPlaneIsDecoded(t *testing.T) {
	t.Parallel()
	spec := map[string]any{
		"nodeSelector": map[string]any{"role": "infra"},
		"tolerations": []any{
			map[string]any{"key": "k", "operator": "Exists", "tolerationSeconds": int64(30)},
		},
		"labels":                       map[string]any{"team": "a"},
		"controllerAvailabilityPolicy": "HighlyAvailable",
		"pullSecret":                   int64(1), // it is not read
	}
	want := cluster.HostedControlPlaneSpec{
		NodeSelector: map[string]string{"role": "infra"},
		Tolerations: []corev1.Toleration{
			{Key: "k", Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To[int64](30)},
		},
		Labels:                       map[string]string{"team": "a"},
		ControllerAvailabilityPolicy: cluster.HighlyAvailable,
	}
	got, err := withHosted(t, hosted(controlPlane, "a", spec)).HostedControlPlane()
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual(want, got.Spec))
	assert.Check(t, is.Equal(got.Namespace+"/"+got.Name, controlPlane+"/a"))
	got, err = withHosted(t, hosted(controlPlane, "a", map[string]any{})).HostedControlPlane()
	assert.NilError(t, err)
	want = cluster.HostedControlPlaneSpec{ControllerAvailabilityPolicy: cluster.SingleReplica}
	assert.Check(t, is.DeepEqual(want, got.Spec), "the default")
}

func TestUnusableHostedControlPlaneIsAnError(t *testing.T) {
	t.Parallel()
	const place = "in namespace clusters-a of the management cluster"
	type objects = []*unstructured.Unstructured
	for name, test := range map[string]struct {
		objects objects
		// want contains parts of the message: what is wrong, where, and what to do.
		want []string
	}{
		"only elsewhere": {
			objects{hosted("clusters-b", "b", nil)},
			[]string{"no HostedControlPlane is " + place, "remove an operator that was left behind"},
		},
		"three, of which one is being deleted": {
			objects{
				hosted(controlPlane, "c", nil),
				deleted(hosted(controlPlane, "b", nil)), hosted(controlPlane, "a", nil),
			},
			[]string{"3 HostedControlPlanes are " + place + " (a, b, c)", "delete all others"},
		},
		"being deleted": {
			objects{deleted(hosted(controlPlane, "a", nil))},
			[]string{"HostedControlPlane a " + place + " is being deleted"},
		},
		"not to be decoded": {
			objects{hosted(controlPlane, "a", map[string]any{"nodeSelector": "master"})},
			[]string{
				"decoding the HostedControlPlane " + place + ": a: ", "spec.nodeSelector",
				"stay unchanged until it is fixed",
			},
		},
	} {
		f := withHosted(t, test.objects...)
		_, first := f.HostedControlPlane()
		assert.Assert(t, first != nil, "got no error: %s", name)
		for _, part := range append(test.want, "stay unchanged") {
			assert.Check(t, is.ErrorContains(first, part), name)
		}
		// Each change of the message would cause a write of the status, and an event.
		for range 10 {
			_, err := f.HostedControlPlane()
			assert.Check(t, is.Error(err, first.Error()), name)
		}
	}
}

// The cache counts as synced after the error; a later successful list clears the error.
func TestListErrorOfHostedControlPlanesIsReported(t *testing.T) {
	t.Parallel()
	resource := cluster.HostedControlPlanes().GroupResource()
	for refusal, want := range map[error][]string{
		apierrors.NewForbidden(resource, "", errors.New("account x may not list")): {
			"account x may not list", "namespace clusters-a of the management cluster",
			"stay unchanged", "the operator's Role",
		},
		apierrors.NewNotFound(resource, ""): {"not found", "CustomResourceDefinition"},
	} {
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
				return !granted.Load(), nil, refusal
			})
		f.Start(t)
		_, err := f.HostedControlPlane()
		for _, part := range want {
			assert.Check(t, is.ErrorContains(err, part))
		}
		granted.Store(true)
		clustertest.Eventually(t, func() bool {
			_, err := f.HostedControlPlane()
			return err == nil
		}, "the list")
	}
}

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
		clustertest.Eventually(t, func() bool {
			// Repeated, because the fake loses an update between the informer's list and its watch.
			_, err := client.Update(t.Context(), bulky(label), metav1.UpdateOptions{})
			assert.NilError(t, err)
			got, err := f.HostedControlPlane()
			assert.NilError(t, err)
			return got.Spec.Labels["l"] == label
		}, "the "+label)
		for _, cached := range f.HostedControlPlanes.GetStore().List() {
			object := cached.(*unstructured.Unstructured)
			_, found := object.Object["status"]
			assert.Check(t, !found && object.GetManagedFields() == nil, "the %s: %v", label, object.Object)
		}
	}
}

// The operator's RBAC in the management cluster is limited to the namespace.
func TestHostedControlPlanesAreReadFromOneNamespace(t *testing.T) {
	t.Parallel()
	f := withHosted(t, hosted(controlPlane, "a", nil), hosted("clusters-b", "b", nil))
	assert.Check(t, is.DeepEqual([]string{controlPlane + "/a"},
		f.HostedControlPlanes.GetStore().ListKeys()))
	for _, side := range flavour.Sides() {
		for _, action := range f.Side(side).Dynamic.(*dynamicfake.FakeDynamicClient).Actions() {
			_, creates := action.(clienttesting.CreateAction)
			assert.Check(t, action.GetResource() != cluster.HostedControlPlanes() || creates ||
				side == flavour.ControlPlane && action.GetNamespace() == controlPlane, "%s: %v", side, action)
		}
	}
}
