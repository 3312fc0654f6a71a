//go:build integration

package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// optional is an object whose CRD may be missing in a cluster.
type optional struct {
	collection

	crd, name, condition string
}

func optionals() map[string]optional {
	return map[string]optional{
		"VolumeSnapshotClass": {
			collection: collection{resource("snapshot.storage.k8s.io", "volumesnapshotclasses"), ""},
			crd:        "volumesnapshotclasses.snapshot.storage.k8s.io",
			name:       "csi-manila-standard",
			condition:  "OpenStackManilaDriverVolumeSnapshotClassControllerDegraded",
		},
		"ServiceMonitor": {
			collection: collection{
				resource("monitoring.coreos.com", "servicemonitors"), operandNamespace,
			},
			crd:       "servicemonitors.monitoring.coreos.com",
			name:      "manila-csi-driver-controller-monitor",
			condition: "OpenStackManilaDriverServiceMonitorControllerDegraded",
		},
	}
}

// get returns the object.
func (o optional) get(e *env) (*unstructured.Unstructured, error) {
	return e.guest.of(o.collection).Get(e.ctx(), o.name, metav1.GetOptions{})
}

// exists returns nil if the object exists.
func (o optional) exists(e *env) error {
	_, err := o.get(e)
	return err
}

func (e *env) recreatesOptionalObjects() {
	e.awaitAvailable()
	for name, o := range optionals() {
		e.sub(name, func(*testing.T) {
			// Available does not include objects of optional CRDs.
			e.within(prompt, func() error { return o.exists(e) })
			first, err := o.get(e)
			e.must(err)
			e.must(e.guest.of(o.collection).Delete(e.ctx(), o.name, metav1.DeleteOptions{}))
			// The operator does not watch the object. Any event of the ClusterCSIDriver triggers a sync.
			e.touchDriver(name)
			e.within(prompt, func() error { return o.exists(e) })
			second, err := o.get(e)
			e.must(err)
			for _, object := range []map[string]any{first.Object, second.Object} {
				delete(object, "metadata")
			}
			if diff := cmp.Diff(first.Object, second.Object); diff != "" {
				e.t.Errorf("the content differs (-first +second):\n%s", diff)
			}
		})
	}
}
