package guest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/test/budget"
)

// decoded returns the object with a JSON text.
func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	assert.NilError(t, json.Unmarshal([]byte(text), &object.Object))
	return object
}

func TestStorageClassStateIsChecked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec string
		want opv1.StorageClassStateName // none if the spec is invalid
	}{
		"none":      {`{}`, opv1.ManagedStorageClass},
		"empty":     {`{"storageClassState": ""}`, opv1.ManagedStorageClass},
		"Removed":   {`{"storageClassState": "Removed"}`, opv1.RemovedStorageClass},
		"another":   {`{"storageClassState": "Sometimes\n"}`, ""},
		"a number":  {`{"storageClassState": 5}`, ""},
		"no object": {`"x"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			assert.NilError(t, store.Add(decoded(t,
				`{"metadata": {"name": "x"}, "spec": `+tt.spec+`}`)))
			got, err := guest.StorageClassState(store, "x", " of the guest cluster")
			if tt.want == "" {
				wantFault(t, err, "ClusterCSIDriver x of the guest cluster", "spec.storageClassState")
				return
			}
			assert.Check(t, err == nil && got == tt.want, "got %q, %v; want %q", got, err, tt.want)
		})
	}
}

func TestOnlyDriverTrimsClusterCSIDrivers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ given, want string }{
		"another": {
			`{"metadata": {"name": "y", "resourceVersion": "7", "annotations": {"a": "b"}},
				"spec": {"a": "b"}}`,
			`null`,
		},
		"own": {
			`{"metadata": {"name": "x"}, "spec": {"a": "b"},
				"status": {"version": "1", "conditions": [{"type": "A"}]}}`,
			`{"metadata": {"name": "x"}, "spec": {"a": "b"},
				"status": {"version": "1", "conditions": [{"type": "A"}]}}`,
		},
		"a status that is none": {
			`{"metadata": {"name": "x"}, "status": "x"}`,
			`{"metadata": {"name": "x"}}`,
		},
		"entries with the same key": {
			`{"metadata": {"name": "x"}, "status": {
				"conditions": [{"type": "A", "reason": "B"}, {"type": "B"}, {"type": "A"}],
				"generations": [{"group": "a", "name": "b"}, {"group": "a"}, {"group": "a", "name": "b"}]}}`,
			`{"metadata": {"name": "x"}, "status": {
				"conditions": [{"type": "A", "reason": "B"}, {"type": "B"}],
				"generations": [{"group": "a", "name": "b"}, {"group": "a"}]}}`,
		},
		"fields and entries": {
			`{"metadata": {"name": "x"}, "status": {"version": 1, "readyReplicas": 2,
				"conditions": [{"type": 5}, {"type": "A"}], "generations": 5}}`,
			`{"metadata": {"name": "x"}, "status": {"readyReplicas": 2, "conditions": [{"type": "A"}]}}`,
		},
	} {
		got, err := guest.OnlyDriver("x")(decoded(t, tt.given))
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(decoded(t, tt.want), got), "cached: %s", name)
	}
}

// FuzzClusterCSIDriver proves that the cache contains only decodable ClusterCSIDrivers, and that
// their fields are known values or errors.
func FuzzClusterCSIDriver(f *testing.F) {
	for _, text := range []string{
		`{"spec": {"storageClassState": "Managed"},
			"status": {"conditions": [{"type": "A", "status": "True"}]}}`,
		`{"spec": 5, "status": "x"}`,
		`{"spec": {"storageClassState": 5},
			"status": {"conditions": "x", "generations": [5, {"lastGeneration": "x"}]}}`,
		`{"spec": {"storageClassState": "x\u0000"},
			"status": {"conditions": [{"lastTransitionTime": "never"}, {"type": "A"}]}}`,
		`{"metadata": {"name": 5}, "status": {"version": {}}}`,
	} {
		f.Add(text)
	}
	// The estimate allows 4 MiB: a long text, or about 6,000 elements.
	const conditions = `{"status":{"conditions":[`
	f.Add(conditions + `{"message":"` + strings.Repeat("x", 4<<20) + `"}]}}`)
	for _, part := range []string{`{"type":"a#","status":"True"},`, `{"type":5},`, `{},`, `[],`} {
		f.Add(conditions + strings.TrimSuffix(budget.Repeated("", part, 6000*len(part)), ",") + `]}}`)
	}
	f.Fuzz(func(t *testing.T, text string) {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &object.Object); err != nil || object.Object == nil {
			return
		}
		object.Object["metadata"] = map[string]any{"name": "x"}
		var cached any
		var err error
		budget.Check(t, func() { cached, err = guest.OnlyDriver("x")(object) })
		assert.NilError(t, err)
		store := cache.NewStore(cache.MetaNamespaceKeyFunc)
		assert.NilError(t, store.Add(cached))
		status, err := json.Marshal(object.Object["status"])
		assert.NilError(t, err)
		assert.Check(t, json.Unmarshal(status, &opv1.OperatorStatus{}), "status %s", status)
		state, err := guest.StorageClassState(store, "x", "")
		if err != nil {
			wantPrintable(t, err.Error())
		} else if state != opv1.ManagedStorageClass && state != opv1.UnmanagedStorageClass &&
			state != opv1.RemovedStorageClass {
			t.Errorf("the state is %q", state)
		}
	})
}
