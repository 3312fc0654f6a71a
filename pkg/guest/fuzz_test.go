package guest_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// FuzzObserved proves that an observed configuration adds only safe text to a manifest, and that
// every error is printable.
func FuzzObserved(f *testing.F) {
	f.Add(observed)
	f.Add("")
	for _, raw := range hostile() {
		f.Add(raw[:min(len(raw), 4096)])
	}
	safe := regexp.MustCompile(`^[A-Za-z0-9_,]*$`)
	f.Fuzz(func(t *testing.T, raw string) {
		if !json.Valid([]byte(raw)) {
			return // no part of an object
		}
		spec, err := readForWorkloads("", raw)
		if err != nil {
			wantPrintable(t, err.Error())
			return
		}
		var config struct {
			TargetCSIConfig struct {
				ServingInfo struct {
					MinTLSVersion string
					CipherSuites  []string
				}
				Proxy map[string]string
			}
		}
		assert.NilError(t, json.Unmarshal(spec.ObservedConfig.Raw, &config))
		info := config.TargetCSIConfig.ServingInfo
		text := info.MinTLSVersion + strings.Join(info.CipherSuites, ",")
		assert.Check(t, safe.MatchString(text) && len(text) <= 8192 && info.MinTLSVersion != "", text)
		for name := range config.TargetCSIConfig.Proxy {
			assert.Check(t, strings.HasSuffix(name, "_PROXY"), "got the variable %q", name)
		}
	})
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
	f.Fuzz(func(t *testing.T, text string) {
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &object.Object); err != nil || object.Object == nil {
			return
		}
		object.Object["metadata"] = map[string]any{"name": "x"}
		cached, err := guest.OnlyDriver("x")(object)
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
