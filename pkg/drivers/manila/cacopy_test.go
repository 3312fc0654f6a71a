package manila

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// copyWith returns the ConfigMap that the nodes mount.
func copyWith(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "cloud-provider-config"}, Data: data,
	}
}

// copyBench runs single syncs of the controller.
type copyBench struct {
	*caCopier
	fake   *clustertest.Fake
	events events.Recorder
}

func newCopyBench(t *testing.T, seed clustertest.Seed) copyBench {
	t.Helper()
	fake, s := dependenciesOf(t, seed)
	b := copyBench{newCACopier(s), fake, s.Events}
	fake.Start(t)
	return b
}

// put writes the ConfigMap to a side, or deletes it if it has no data.
func (b copyBench) put(t *testing.T, side flavour.Side, object *corev1.ConfigMap) {
	t.Helper()
	api := b.fake.Side(side).Kube.CoreV1().ConfigMaps(object.Namespace)
	var err error
	if object.Data == nil {
		err = api.Delete(t.Context(), object.Name, metav1.DeleteOptions{})
	} else if _, err = api.Update(t.Context(), object,
		metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		_, err = api.Create(t.Context(), object, metav1.CreateOptions{})
	}
	assert.NilError(t, err)
}

// run syncs once, and returns all requests to the guest side and the writes to the management
// cluster.
func (b copyBench) run(t *testing.T) ([]string, error) {
	t.Helper()
	b.settle(t, flavour.ControlPlane, b.fake.Namespaces.UserConfig, b.fake.Namespaces.CloudConfig)
	b.settle(t, flavour.Guest, Namespace, "cloud-provider-config")
	b.fake.Guest.ClearActions()
	b.fake.ControlPlane.ClearActions()
	err := b.Sync(t.Context(), factory.NewSyncContext("test", b.events))
	if b.fake.Guest != b.fake.ControlPlane && len(b.fake.ControlPlane.Actions()) > 0 {
		t.Errorf("requests to the management cluster: %v", b.fake.ControlPlane.Actions())
	}
	var requests []string
	for _, action := range b.fake.Guest.Actions() {
		if action.GetNamespace() != Namespace || action.GetResource().Resource != "configmaps" {
			t.Errorf("the guest is asked to %s %s in %q", action.GetVerb(), action.GetResource().Resource,
				action.GetNamespace())
		}
		if action.GetVerb() != "get" { // before each write, by library-go
			requests = append(requests, action.GetVerb())
		}
	}
	if settled := len(b.fake.Guest.Actions()) == 0; settled != (len(requests) == 0) {
		t.Errorf("requests %v without a write", b.fake.Guest.Actions())
	}
	return requests, err
}

// settle waits until the cache of a side contains the ConfigMap of its API server.
func (b copyBench) settle(t *testing.T, side flavour.Side, namespace, name string) {
	t.Helper()
	clients := b.fake.Side(side)
	cached := clients.ObjectInformers.For(namespace, name).Core().V1().ConfigMaps().Lister()
	settleOne(t,
		func() (*corev1.ConfigMap, error) {
			return clients.Kube.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
		},
		func() (*corev1.ConfigMap, error) { return cached.ConfigMaps(namespace).Get(name) })
}

// data returns the data of the copy, nil if the copy does not exist.
func (b copyBench) data(t *testing.T) map[string]string {
	t.Helper()
	found, err := b.fake.Guest.CoreV1().ConfigMaps(Namespace).Get(t.Context(), "cloud-provider-config",
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	assert.NilError(t, err)
	return found.Data
}

// TestCopyFollowsSource creates, changes and deletes a source, and checks that the copy contains
// the CA and nothing else.
func TestCopyFollowsSource(t *testing.T) {
	t.Parallel()
	type data = map[string]string
	for _, f := range flavour.All() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			b := newCopyBench(t, clustertest.Seed{Flavour: f})
			source := func(d data) func() {
				return func() { b.put(t, flavour.ControlPlane, sourceOf(f, d)) }
			}
			copied := func(d data) func() { return func() { b.put(t, flavour.Guest, copyWith(d)) } }
			nothing := func() {}
			for _, step := range []struct {
				name     string
				do       func()
				requests []string
				want     data
			}{
				{"no source", nothing, nil, nil},
				{"foreign copy", copied(data{"a": "b"}), []string{"delete"}, nil},
				{
					"source", source(data{"ca-bundle.pem": "A", "config": "x"}),
					[]string{"create"},
					data{"ca-bundle.pem": "A"},
				},
				{"settled", nothing, nil, data{"ca-bundle.pem": "A"}},
				{
					"renewed", source(data{"ca-bundle.pem": "B", "config": "x"}),
					[]string{"update"},
					data{"ca-bundle.pem": "B"},
				},
				{
					"edited copy", copied(data{"ca-bundle.pem": "C", "config": "x"}),
					[]string{"update"},
					data{"ca-bundle.pem": "B"},
				},
				{
					"copy of an earlier release", copied(data{"ca-bundle.pem": "B", "config": "x", "y": ""}),
					[]string{"update"},
					data{"ca-bundle.pem": "B"},
				},
				{"no copy", copied(nil), []string{"create"}, data{"ca-bundle.pem": "B"}},
				{"source gone", source(nil), []string{"delete"}, nil},
				{"settled without", nothing, nil, nil},
			} {
				step.do()
				requests, err := b.run(t)
				b.settle(t, flavour.Guest, Namespace, "cloud-provider-config")
				if diff := cmp.Diff(step.requests, requests); err != nil || diff != "" {
					t.Errorf("%s: %v; requests (-want +got):\n%s", step.name, err, diff)
				}
				assert.Check(t, is.DeepEqual(step.want, b.data(t)), "%s: the copy", step.name)
			}
		})
	}
}

func TestSourceWithoutCAHasNoCopy(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		for _, data := range []map[string]string{
			{"cloud.conf": "x"}, {"cloud.conf": "x", "ca-bundle.pem": ""},
		} {
			b := newCopyBench(t, seedWith(f, []runtime.Object{sourceOf(f, data)},
				[]runtime.Object{copyWith(map[string]string{"ca-bundle.pem": "A"})}))
			requests, err := b.run(t)
			if diff := cmp.Diff([]string{"delete"}, requests); err != nil || diff != "" {
				t.Errorf("%s: %v; requests for %v (-want +got):\n%s", f, err, data, diff)
			}
		}
	}
}

// TestCopyContainsTheCAOnly uses a source with binary keys, and with metadata for other components.
func TestCopyContainsTheCAOnly(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		source := sourceOf(f,
			map[string]string{"ca-bundle.pem": "A", "config": "[Global]\npassword = hunter2"})
		source.BinaryData, source.Labels = map[string][]byte{"b": {1}}, map[string]string{"for": "others"}
		b := newCopyBench(t, seedWith(f, []runtime.Object{source}, nil))
		for _, wantRequests := range [][]string{{"create"}, nil} {
			requests, err := b.run(t)
			if diff := cmp.Diff(wantRequests, requests); err != nil || diff != "" {
				t.Errorf("%s: %v; requests (-want +got):\n%s", f, err, diff)
			}
		}
		got, err := b.fake.Guest.CoreV1().ConfigMaps(Namespace).Get(t.Context(), "cloud-provider-config",
			metav1.GetOptions{})
		assert.NilError(t, err)
		diff := cmp.Diff(map[string]string{"ca-bundle.pem": "A"}, got.Data)
		if diff != "" || len(got.Labels)+len(got.BinaryData) > 0 {
			t.Errorf("%s: labels %v, binary data %v; data (-want +got):\n%s", f, got.Labels, got.BinaryData,
				diff)
		}
	}
}

func TestCopyOfAnUnmanagedOperator(t *testing.T) {
	t.Parallel()
	edited := []runtime.Object{copyWith(map[string]string{"ca-bundle.pem": "mine"})}
	for _, f := range flavour.All() {
		source := []runtime.Object{sourceOf(f, map[string]string{"ca-bundle.pem": "A"})}
		for name, seed := range map[string]clustertest.Seed{
			"no copy": seedWith(f, source, nil), "edited copy": seedWith(f, source, edited),
			"no source": seedWith(f, nil, edited),
		} {
			b := newCopyBench(t, seed)
			b.fake.State.Set(t, csiDriver(opv1.Unmanaged, opv1.ManagedStorageClass))
			if requests, err := b.run(t); err != nil || requests != nil {
				t.Errorf("%s, %s: got %v, %v; want neither request nor error", f, name, requests, err)
			}
		}
	}
}

// TestEventsTriggerCopyOfCA checks that changes of source and copy trigger the controller, and that
// its condition reports failures.
func TestEventsTriggerCopyOfCA(t *testing.T) {
	t.Parallel()
	for f, want := range map[flavour.Flavour]string{
		flavour.Standalone: "updating ConfigMap openshift-manila-csi-driver/cloud-provider-config, " +
			"a copy of ConfigMap openshift-config/cloud-provider-config: refused",
		flavour.HyperShift: "updating ConfigMap openshift-manila-csi-driver/cloud-provider-config " +
			"of the guest cluster, a copy of ConfigMap clusters-a/openstack-cloud-config " +
			"of the management cluster: refused",
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			b := newCopyBench(t, clustertest.Seed{Flavour: f})
			refuseUpdates(b.fake)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go b.Run(ctx, 1)
			has := func(ca string) { eventually(t, func() bool { return b.data(t)["ca-bundle.pem"] == ca }) }
			b.put(t, flavour.ControlPlane, sourceOf(f, map[string]string{"ca-bundle.pem": "A"}))
			has("A")
			b.put(t, flavour.Guest, copyWith(nil))
			has("A")
			eventually(t, func() bool { return b.condition(t) == "False As expected" })
			b.put(t, flavour.ControlPlane, sourceOf(f, map[string]string{"ca-bundle.pem": "refused"}))
			eventually(t, func() bool { return b.condition(t) == "True "+want })
			b.put(t, flavour.ControlPlane, sourceOf(f, map[string]string{"ca-bundle.pem": "B"}))
			has("B")
			eventually(t, func() bool { return b.condition(t) == "False As expected" })
			b.put(t, flavour.ControlPlane, sourceOf(f, nil))
			has("")
		})
	}
}

// refuseUpdates makes the API server of the guest side refuse updates of the copy to a CA of that
// name.
func refuseUpdates(fake *clustertest.Fake) {
	react := func(action clienttesting.Action) (bool, runtime.Object, error) {
		update, ok := action.(clienttesting.UpdateAction)
		if !ok || action.GetNamespace() != Namespace {
			return false, nil, nil
		}
		object, ok := update.GetObject().(*corev1.ConfigMap)
		return ok && strings.Contains(object.Data["ca-bundle.pem"], "refused"), nil, errors.New("refused")
	}
	fake.Guest.PrependReactor("update", "configmaps", react)
}

// condition returns the status and the message of ResourceSyncControllerDegraded (decision 0029).
func (b copyBench) condition(t *testing.T) string {
	t.Helper()
	found := v1helpers.FindOperatorCondition(b.fake.State.Conditions(t),
		"ResourceSyncControllerDegraded")
	if found == nil {
		return ""
	}
	return string(found.Status) + " " + found.Message
}
