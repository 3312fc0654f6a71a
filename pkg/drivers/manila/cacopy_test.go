package manila

import (
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

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
	client := b.fake.Side(side).Kube.(*kubefake.Clientset)
	if object.Data == nil {
		clustertest.Delete(t, client, object)
		return
	}
	clustertest.Put(t, client, object)
}

// run syncs once, and returns the writes to the guest side.
func (b copyBench) run(t *testing.T) []string {
	t.Helper()
	b.catchUp(t)
	b.fake.Guest.ClearActions()
	b.fake.ControlPlane.ClearActions()
	assert.NilError(t, b.Sync(t.Context(), factory.NewSyncContext("test", b.events)))
	if b.fake.Guest != b.fake.ControlPlane {
		assert.Check(t, is.Len(b.fake.ControlPlane.Actions(), 0), "requests to the management cluster")
	}
	for _, action := range b.fake.Guest.Actions() {
		assert.Check(t, is.Equal(action.GetNamespace(), Namespace))
	}
	written := clustertest.Writes(b.fake.Guest)
	b.catchUp(t)
	return written
}

// catchUp waits until the caches have what the API servers have.
func (b copyBench) catchUp(t *testing.T) {
	t.Helper()
	n := b.fake.Namespaces
	clustertest.CatchUp(t, b.fake.ControlPlane.CoreV1().ConfigMaps(n.UserConfig), n.CloudConfig,
		b.source.Get)
	clustertest.CatchUp(t, b.fake.Guest.CoreV1().ConfigMaps(Namespace), caConfigMap, b.copied.Get)
}

func TestCopyFollowsSource(t *testing.T) {
	t.Parallel()
	type data = map[string]string
	const created, updated, deleted = "create", "update", "delete"
	for _, f := range flavour.OnOpenShift() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			b := newCopyBench(t, clustertest.Seed{Flavour: f})
			source := func(d data) func() {
				object := sourceOf(f, d)
				object.BinaryData = map[string][]byte{"b": {1}}
				object.Labels = map[string]string{"for": "others"}
				return func() { b.put(t, flavour.ControlPlane, object) }
			}
			binary := copyWith(data{"ca-bundle.pem": "B"})
			binary.BinaryData = map[string][]byte{"b": {1}}
			copied := func(d data) func() { return func() { b.put(t, flavour.Guest, copyWith(d)) } }
			nothing := func() {}
			for _, step := range []struct {
				name, want string
				do         func()
				ca         string // in the copy, which contains nothing else
			}{
				{"no source", "", nothing, ""},
				{"foreign copy", deleted, copied(data{"a": "b"}), ""},
				{"source", created, source(data{"ca-bundle.pem": "A", "config": "password"}), "A"},
				{"settled", "", nothing, "A"},
				{"renewed", updated, source(data{"ca-bundle.pem": "B", "config": "x"}), "B"},
				{"edited copy", updated, copied(data{"ca-bundle.pem": "C", "config": "x"}), "B"},
				{"copy of an earlier release", updated, copied(data{"ca-bundle.pem": "B", "y": ""}), "B"},
				{"binary data", updated, func() { b.put(t, flavour.Guest, binary) }, "B"},
				{"no copy", created, copied(nil), "B"},
				{"source without a CA", deleted, source(data{"config": "x", "ca-bundle.pem": ""}), ""},
				{"source again", created, source(data{"ca-bundle.pem": "B"}), "B"},
				{"source gone", deleted, source(nil), ""},
				{"settled without", "", nothing, ""},
			} {
				step.do()
				var writes []string
				if step.want != "" {
					writes = []string{step.want + " configmaps/cloud-provider-config"}
				}
				assert.Check(t, is.DeepEqual(writes, b.run(t)), step.name)
				got := b.copied.Get()
				if step.ca == "" {
					assert.Check(t, got == nil, step.name)
					continue
				}
				assert.Check(t, is.DeepEqual(data{"ca-bundle.pem": step.ca}, got.Data), step.name)
				assert.Check(t, len(got.Labels)+len(got.BinaryData) == 0, step.name)
			}
		})
	}
}

// kubectl writes a file that is not UTF-8 into binaryData.
func TestBinaryCAIsAnError(t *testing.T) {
	t.Parallel()
	source := sourceOf(flavour.Standalone, map[string]string{"config": "x"})
	source.BinaryData = map[string][]byte{"ca-bundle.pem": {0xff}}
	b := newCopyBench(t, clustertest.Seed{})
	b.put(t, flavour.ControlPlane, source)
	b.catchUp(t)
	_, _, err := b.source.authority()
	assert.Check(t, is.Error(err, "key ca-bundle.pem of ConfigMap "+
		"openshift-config/cloud-provider-config is binary data, not UTF-8 text"))
}

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
			go b.Run(t.Context(), 1)
			has := func(ca string) {
				t.Helper()
				configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
				clustertest.Eventually(t, func() bool { // not in the cache, which may be old
					found, err := b.fake.Guest.Tracker().Get(configMaps, Namespace, caConfigMap)
					return err != nil && ca == "" || err == nil && isCopy(found.(*corev1.ConfigMap), ca)
				}, ca)
			}
			reports := func(condition string) {
				t.Helper()
				clustertest.Eventually(t, func() bool { return b.condition(t) == condition }, condition)
			}
			b.put(t, flavour.ControlPlane, sourceOf(f, map[string]string{"ca-bundle.pem": "A"}))
			has("A")
			b.put(t, flavour.Guest, copyWith(nil))
			has("A")
			reports("False As expected")
			b.put(t, flavour.ControlPlane, sourceOf(f, map[string]string{"ca-bundle.pem": "refused"}))
			reports("True " + want)
			b.put(t, flavour.ControlPlane, sourceOf(f, map[string]string{"ca-bundle.pem": "B"}))
			has("B")
			reports("False As expected")
			b.put(t, flavour.ControlPlane, sourceOf(f, nil))
			has("")
		})
	}
}

// refuseUpdates makes the API server of the guest side refuse updates of the copy to this CA.
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
	found := b.fake.State.Condition(t, "ResourceSyncControllerDegraded")
	return string(found.Status) + " " + found.Message
}
