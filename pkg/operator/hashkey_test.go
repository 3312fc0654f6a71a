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

func hashKeySecret(value []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hashKeyNamespace, Name: hashKeyName},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{"key": value},
	}
}

// With another key, unchanged rollout inputs would cause a rollout. The guest cluster does not
// contain the key.
func TestEachRunUsesTheSameHashKey(t *testing.T) {
	t.Parallel()
	f := clustertest.New(
		t, clustertest.Seed{Flavour: flavour.HyperShift, OperatorNamespace: hashKeyNamespace},
	)
	first := newHashKeyRun(t, f)
	f.Start(t)
	first.sync(t)
	value := stored(t, f)
	if len(value) != hook.KeySize || !bytes.Equal(value, first.key.Value()) ||
		bytes.Equal(value, make([]byte, hook.KeySize)) {
		t.Fatalf(
			"the Secret has a key of %d bytes, the process one of %d", len(value), len(first.key.Value()),
		)
	}
	first.sync(t)
	second := newHashKeyRun(t, f)
	second.sync(t)
	assert.Check(t, bytes.Equal(value, second.key.Value()), "another run has another key")
	if writes := clustertest.Writes(f.ControlPlane); len(writes) != 1 {
		t.Errorf("writes are %q, want one", writes)
	}
	if writes := clustertest.Writes(f.Guest); len(writes) > 0 {
		t.Errorf("writes to the guest cluster are %q", writes)
	}
	if err := f.ControlPlane.CoreV1().Secrets(hashKeyNamespace).Delete(t.Context(), hashKeyName,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitCache(t, f, func(_ *corev1.Secret, err error) bool { return err != nil })
	first.sync(t)
	assert.Check(t, bytes.Equal(value, stored(t, f)), "a deleted Secret comes back with another key")
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
				OperatorNamespace: hashKeyNamespace, Guest: []runtime.Object{hashKeySecret(test.value)},
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

func TestUnmanagedOperatorReadsButDoesNotWriteTheHashKey(t *testing.T) {
	t.Parallel()
	unmanaged := &opv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "test"}}
	unmanaged.Spec.ManagementState = opv1.Unmanaged
	f := clustertest.New(
		t, clustertest.Seed{OperatorNamespace: hashKeyNamespace, ClusterCSIDriver: unmanaged},
	)
	run := newHashKeyRun(t, f)
	f.Start(t)
	run.sync(t)
	if writes := clustertest.Writes(f.Guest); len(writes) > 0 || run.key.Value() != nil {
		t.Errorf("writes are %q", writes)
	}
	assert.Check(t, !run.initialSyncs.done(), "workloads count the key as known")
	value := bytes.Repeat([]byte{7}, hook.KeySize)
	if _, err := f.Guest.CoreV1().Secrets(hashKeyNamespace).Create(t.Context(), hashKeySecret(value),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stored(t, f)
	run.sync(t)
	assert.Check(t, bytes.Equal(value, run.key.Value()), "the key is not read")
}
