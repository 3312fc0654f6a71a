package guest_test

import (
	"encoding/json"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/guest"
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
		"none":     {`{}`, opv1.ManagedStorageClass},
		"empty":    {`{"storageClassState": ""}`, opv1.ManagedStorageClass},
		"Removed":  {`{"storageClassState": "Removed"}`, opv1.RemovedStorageClass},
		"another":  {`{"storageClassState": "Sometimes\n"}`, ""},
		"a number": {`{"storageClassState": 5}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := guest.StorageClassState(decoded(t, tt.spec).Object,
				"ClusterCSIDriver x of the guest cluster")
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
	} {
		got, err := guest.OnlyDriver("x")(decoded(t, tt.given))
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(decoded(t, tt.want), got), "cached: %s", name)
	}
}

// FuzzClusterCSIDriver proves that the fields that operators read are known values or errors.
func FuzzClusterCSIDriver(f *testing.F) {
	for _, text := range []string{
		`{"storageClassState": "Managed"}`, `{"storageClassState": 5}`,
		`{"storageClassState": "x\u0000"}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var spec map[string]any
		if err := json.Unmarshal([]byte(text), &spec); err != nil {
			return
		}
		state, err := guest.StorageClassState(spec, "")
		if err != nil {
			wantPrintable(t, err.Error())
		} else if state != opv1.ManagedStorageClass && state != opv1.UnmanagedStorageClass &&
			state != opv1.RemovedStorageClass {
			t.Errorf("the state is %q", state)
		}
	})
}
