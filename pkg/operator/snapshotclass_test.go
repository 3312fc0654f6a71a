package operator

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// snapshotClassFixture is the controller of the VolumeSnapshotClass in a cluster without the CRD.
type snapshotClassFixture struct {
	*driver

	sync    func() error
	dynamic *dynamicfake.FakeDynamicClient
	classes dynamic.ResourceInterface
	name    string
}

func newSnapshotClassFixture(
	t *testing.T, name string, plugins ...plugin.Driver,
) *snapshotClassFixture {
	t.Helper()
	d := assembled(t, flavour.Standalone, plugins...)[0]
	f := &snapshotClassFixture{driver: d, name: name, sync: syncer(t, d, d.volumeSnapshotClass)}
	f.dynamic = d.cluster.Side(flavour.Guest).Dynamic.(*dynamicfake.FakeDynamicClient)
	f.classes = f.dynamic.Resource(schema.GroupVersionResource{
		Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshotclasses",
	})
	d.cluster.Start(t.Context())
	return f
}

// create waits until the controller has created the class, after its CRD.
func (f *snapshotClassFixture) create(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	assert.NilError(t, f.sync())
	_, err := f.classes.Get(t.Context(), f.name, metav1.GetOptions{})
	assert.Check(t, apierrors.IsNotFound(err), "without the CRD: %v", err)
	clustertest.PutCRD(t, f.cluster.Side(flavour.Guest).Metadata,
		"volumesnapshotclasses.snapshot.storage.k8s.io")
	var class *unstructured.Unstructured
	clustertest.Eventually(t, func() bool {
		assert.NilError(t, f.sync())
		class, err = f.classes.Get(t.Context(), f.name, metav1.GetOptions{})
		return err == nil
	}, "the class, after its CRD")
	f.mustHaveEvent(t, "VolumeSnapshotClassCreated")
	return class
}

func (f *snapshotClassFixture) get(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	got, err := f.classes.Get(t.Context(), f.name, metav1.GetOptions{})
	assert.NilError(t, err)
	return got
}

// mustHaveEvent checks that an event with this reason names the class.
func (f *snapshotClassFixture) mustHaveEvent(t *testing.T, reason string) {
	t.Helper()
	messages := clustertest.Messages(f.events.(events.InMemoryRecorder), reason)
	assert.Check(t, is.Contains(strings.Join(messages, "\n"), "/"+f.name+" "), reason)
}

// With Delete, the cloud loses snapshots that the administrator wants to retain. Without
// force-create, Cinder creates none of volumes in use.
func TestVolumeSnapshotClassKeepsWhatTheAdministratorMayChoose(t *testing.T) {
	t.Parallel()
	for name, plugins := range map[string][]plugin.Driver{
		"csi-manila-standard": plugins(), "standard-csi": {cinderPlugin()},
	} {
		for chosen, want := range map[string]string{
			"Delete": "Delete", "Retain": "Retain", "unknown": "Delete",
		} {
			f := newSnapshotClassFixture(t, name, plugins...)
			expected := f.create(t)
			changed := expected.DeepCopy()
			changed.Object["deletionPolicy"] = chosen
			changed.Object["parameters"] = map[string]any{"force-create": "true", "added": "x"}
			changed.Object["driver"] = "another"
			expected.Object["deletionPolicy"] = want
			expected.Object["parameters"].(map[string]any)["force-create"] = "true"
			for _, object := range []*unstructured.Unstructured{changed, expected} {
				object.SetAnnotations(map[string]string{"of": "the administrator"})
			}
			_, err := f.classes.Update(t.Context(), changed, metav1.UpdateOptions{})
			assert.NilError(t, err)
			f.dynamic.ClearActions()
			for range 2 {
				assert.NilError(t, f.sync())
			}
			var verbs []string
			for _, action := range f.dynamic.Actions() {
				if action.GetResource().Resource == "volumesnapshotclasses" {
					verbs = append(verbs, action.GetVerb())
				}
			}
			assert.Check(t, is.DeepEqual([]string{"get", "update", "get"}, verbs), "requests")
			assert.Check(t, is.DeepEqual(expected.Object, f.get(t).Object), "class, %s", chosen)
			f.mustHaveEvent(t, "VolumeSnapshotClassUpdated")
		}
	}
}

// The API server may serve only v1beta1. A condition reports it.
func TestUnservedVersionCausesNoEvents(t *testing.T) {
	t.Parallel()
	f := newSnapshotClassFixture(t, "standard-csi", cinderPlugin())
	class := f.create(t)
	assert.NilError(t, f.classes.Delete(t.Context(), f.name, metav1.DeleteOptions{}))
	refuse(&f.dynamic.Fake, "create", "*", apierrors.NewNotFound(schema.GroupResource{}, ""))
	before := len(f.events.(events.InMemoryRecorder).Events())
	err := applySnapshotClass(t.Context(), f.classes, f.events, class, "")
	assert.Check(t, apierrors.IsNotFound(err), "%v", err)
	assert.Check(t, is.Len(f.events.(events.InMemoryRecorder).Events(), before))
}

func TestChoiceOfForceCreateHasPrecedence(t *testing.T) {
	t.Parallel()
	f := newSnapshotClassFixture(t, "standard-csi", cinderPlugin())
	class := f.create(t)
	for _, want := range []string{"true", "false"} {
		assert.NilError(t, applySnapshotClass(t.Context(), f.classes, f.events, class, want))
		got := f.get(t).Object["parameters"].(map[string]any)
		assert.Check(t, is.DeepEqual(map[string]any{"force-create": want}, got), "parameters")
	}
}
