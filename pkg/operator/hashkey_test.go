package operator

import (
	"bytes"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const hashKeyNamespace, hashKeyName = "operators", "test-operator-hash-key"

// hashKeyRun is one run of an operator on a fake cluster.
type hashKeyRun struct {
	*driver
	controller factory.Controller
}

func newHashKeyRun(t *testing.T, f *clustertest.Fake) hashKeyRun {
	t.Helper()
	d := &driver{
		Driver: plugin.Driver{ConditionPrefix: "Test"},
		shared: &shared{
			operatorName: "test-operator", cluster: f.Cluster, operator: f.Operator,
			events: events.NewInMemoryRecorder("test", clock.RealClock{}), key: &hook.Key{},
		},
		initialSyncs: &initialSyncs{},
	}
	controller, err := d.hashKeyController("TestDriverHashKeyController")
	assert.NilError(t, err)
	return hashKeyRun{d, controller}
}

func (r hashKeyRun) sync(t *testing.T) {
	t.Helper()
	assert.NilError(t, r.controller.Sync(t.Context(), factory.NewSyncContext("test", r.events)))
}

// stored waits until the cache contains the Secret of the API server, and returns its key, nil if
// there is no Secret.
func stored(t *testing.T, f *clustertest.Fake) []byte {
	t.Helper()
	cached := f.Secret(flavour.ControlPlane, hashKeyNamespace, hashKeyName)
	secrets := f.ControlPlane.CoreV1().Secrets(hashKeyNamespace)
	clustertest.CatchUp(t, secrets, hashKeyName, cached.Get)
	return ptr.Deref(cached.Get(), corev1.Secret{}).Data["key"]
}

// With another key, unchanged rollout inputs would cause a rollout. The guest cluster does not
// contain the key. While Unmanaged, the operator reads it.
func TestEachRunUsesTheSameHashKey(t *testing.T) {
	t.Parallel()
	seed := clustertest.Seed{Flavour: flavour.HyperShift, OperatorNamespace: hashKeyNamespace}
	f := clustertest.New(t, seed)
	setSpec(t, f.State, opv1.OperatorSpec{ManagementState: opv1.Unmanaged})
	first, second := newHashKeyRun(t, f), newHashKeyRun(t, f)
	f.Start(t)
	first.sync(t)
	assert.Check(t, first.key.Value() == nil && !first.initialSyncs.done(), "a key while Unmanaged")
	setSpec(t, f.State, opv1.OperatorSpec{ManagementState: opv1.Managed})
	first.sync(t)
	value := stored(t, f)
	assert.Check(t, len(value) == hook.KeySize && !bytes.Equal(value, make([]byte, hook.KeySize)))
	assert.Check(t, is.DeepEqual(value, first.key.Value()))
	first.sync(t)
	setSpec(t, f.State, opv1.OperatorSpec{ManagementState: opv1.Unmanaged})
	second.sync(t)
	assert.Check(t, is.DeepEqual(value, second.key.Value()), "key of another run")
	assert.Check(t, is.DeepEqual([]string{"create secrets/" + hashKeyName},
		clustertest.Writes(f.ControlPlane)))
	assert.Check(t, is.Len(clustertest.Writes(f.Guest), 0))
	setSpec(t, f.State, opv1.OperatorSpec{ManagementState: opv1.Managed})
	assert.NilError(t, f.ControlPlane.CoreV1().Secrets(hashKeyNamespace).
		Delete(t.Context(), hashKeyName, metav1.DeleteOptions{}))
	assert.Check(t, is.Len(stored(t, f), 0))
	first.sync(t)
	assert.Check(t, is.DeepEqual(value, stored(t, f)), "key in the Secret after it was deleted")
}

// The cache may be older than the API server.
func TestOnlyAnInvalidHashKeyIsReplaced(t *testing.T) {
	t.Parallel()
	used := bytes.Repeat([]byte{7}, hook.KeySize)
	updated := []string{"update secrets/" + hashKeyName}
	for name, test := range map[string]struct {
		value []byte
		want  bool
		verbs []string
	}{
		"a key":      {used, true, nil},
		"no key":     {nil, false, updated},
		"half a key": {used[:hook.KeySize/2], false, updated},
	} {
		f := clustertest.New(t, clustertest.Seed{
			OperatorNamespace: hashKeyNamespace, Guest: []runtime.Object{&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: hashKeyNamespace, Name: hashKeyName},
				Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{"key": test.value},
			}},
		})
		run := newHashKeyRun(t, f) // its cache is empty: nothing is started
		run.sync(t)
		got := run.key.Value()
		assert.Check(t, bytes.Equal(got, used) == test.want && len(got) == hook.KeySize, name)
		assert.Check(t, is.DeepEqual(test.verbs, clustertest.Writes(f.Guest)), "writes, %s", name)
	}
}
