package operator

import (
	"bytes"
	"context"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

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

// awaitCache waits until the lookup of the Secret in the cache has the expected result.
func awaitCache(t *testing.T, f *clustertest.Fake, done func(*corev1.Secret, error) bool) {
	t.Helper()
	lister := f.Side(flavour.ControlPlane).ObjectInformers.For(hashKeyNamespace, hashKeyName).
		Core().V1().Secrets().Lister()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) {
			return done(lister.Secrets(hashKeyNamespace).Get(hashKeyName)), nil
		})
	assert.NilError(t, err, "the cache does not have the expected Secret")
}

// stored waits until the cache contains the Secret of the API server, and returns its key.
func stored(t *testing.T, f *clustertest.Fake) []byte {
	t.Helper()
	live, err := f.ControlPlane.CoreV1().Secrets(hashKeyNamespace).
		Get(t.Context(), hashKeyName, metav1.GetOptions{})
	assert.NilError(t, err)
	awaitCache(t, f, func(cached *corev1.Secret, err error) bool {
		return err == nil && bytes.Equal(cached.Data["key"], live.Data["key"])
	})
	return live.Data["key"]
}

// With another key, unchanged rollout inputs would cause a rollout. The guest cluster does not
// contain the key. While Unmanaged, the operator reads it.
func TestEachRunUsesTheSameHashKey(t *testing.T) {
	t.Parallel()
	f := clustertest.New(
		t, clustertest.Seed{Flavour: flavour.HyperShift, OperatorNamespace: hashKeyNamespace},
	)
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
	awaitCache(t, f, func(_ *corev1.Secret, err error) bool { return err != nil })
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := clustertest.New(t, clustertest.Seed{
				OperatorNamespace: hashKeyNamespace, Guest: []runtime.Object{&corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: hashKeyNamespace, Name: hashKeyName},
					Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{"key": test.value},
				}},
			})
			run := newHashKeyRun(t, f) // its cache is empty: nothing is started
			run.sync(t)
			if got := run.key.Value(); bytes.Equal(got, used) != test.want || len(got) != hook.KeySize {
				t.Errorf("the key in use is kept: %t, want %t", !test.want, test.want)
			}
			assert.Check(t, is.DeepEqual(test.verbs, clustertest.Writes(f.Guest)), "writes")
		})
	}
}
