package operator

import (
	"bytes"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const hashKeyNamespace, hashKeyName = "operators", "test-operator-hash-key"

// hashKeyRun is one run of an operator on a fake cluster.
type hashKeyRun struct {
	*driver
	sync func() error
}

func newHashKeyRun(t *testing.T, f *clustertest.Fake) hashKeyRun {
	t.Helper()
	d := assembledIn(t, f, plugins()...)[0]
	return hashKeyRun{d, syncer(t, d, d.hashKeyController)}
}

func hashKeySecret(key []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: hashKeyNamespace, Name: hashKeyName},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{"key": key},
	}
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
	setState(t, f.State, opv1.Unmanaged)
	first, second := newHashKeyRun(t, f), newHashKeyRun(t, f)
	f.Start(t)
	assert.NilError(t, first.sync())
	assert.Check(t, first.key.Value() == nil && !first.initialSyncs.done(), "a key while Unmanaged")
	setState(t, f.State, opv1.Managed)
	assert.NilError(t, first.sync())
	value := stored(t, f)
	assert.Check(t, len(value) == hook.KeySize && !bytes.Equal(value, make([]byte, hook.KeySize)))
	assert.Check(t, is.DeepEqual(value, first.key.Value()))
	assert.NilError(t, first.sync())
	setState(t, f.State, opv1.Unmanaged)
	assert.NilError(t, second.sync())
	assert.Check(t, is.DeepEqual(value, second.key.Value()), "key of another run")
	assert.Check(t, is.DeepEqual([]string{"create secrets/" + hashKeyName},
		clustertest.Writes(f.ControlPlane)))
	assert.Check(t, is.Len(clustertest.Writes(f.Guest), 0))
	setState(t, f.State, opv1.Managed)
	clustertest.Delete(t, f.ControlPlane, hashKeySecret(nil))
	assert.Check(t, is.Len(stored(t, f), 0))
	assert.NilError(t, first.sync())
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
			OperatorNamespace: hashKeyNamespace, Guest: []runtime.Object{hashKeySecret(test.value)},
		})
		run := newHashKeyRun(t, f) // its cache is empty: nothing is started
		assert.NilError(t, run.sync())
		got := run.key.Value()
		assert.Check(t, bytes.Equal(got, used) == test.want && len(got) == hook.KeySize, name)
		assert.Check(t, is.DeepEqual(test.verbs, clustertest.Writes(f.Guest)), "writes, %s", name)
	}
}
