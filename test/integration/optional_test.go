//go:build integration

package integration

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// optional is an object whose CRD may be missing in a cluster.
type optional struct {
	collection

	name string
}

func optionals() map[string]optional {
	return map[string]optional{
		"VolumeSnapshotClass": {
			collection: collection{resource("snapshot.storage.k8s.io", "volumesnapshotclasses"), ""},
			name:       "csi-manila-standard",
		},
		"ServiceMonitor": {
			collection: collection{
				resource("monitoring.coreos.com", "servicemonitors"), operandNamespace,
			},
			name: "manila-csi-driver-controller-monitor",
		},
	}
}

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
	all := optionals()
	monitor := all["ServiceMonitor"]
	monitor.namespace, monitor.name = flavour.DefaultNamespace, "manila-csi-driver-operator"
	all["ServiceMonitor of the operator"] = monitor
	for name, o := range all {
		e.sub(name, func(*testing.T) {
			// Available does not include objects of optional CRDs.
			e.eventually(prompt, func() error { return o.exists(e) })
			first, err := o.get(e)
			e.must(err)
			e.must(e.guest.of(o.collection).Delete(e.ctx(), o.name, metav1.DeleteOptions{}))
			// The operator does not watch the object. Any event of the ClusterCSIDriver triggers a sync.
			e.touchDriver(name)
			e.eventually(prompt, func() error { return o.exists(e) })
			second, err := o.get(e)
			e.must(err)
			for _, object := range []map[string]any{first.Object, second.Object} {
				delete(object, "metadata")
			}
			assert.Check(e.t, is.DeepEqual(first.Object, second.Object), "the content differs")
		})
	}
}

// keepsDeletionPolicy checks that the operator repairs the VolumeSnapshotClass and keeps what the
// administrator chose, also after a restart.
func (e *env) keepsDeletionPolicy() {
	e.awaitAvailable()
	o := optionals()["VolumeSnapshotClass"]
	change := func() {
		e.must(e.guest.patch(e.ctx(), o.collection, o.name,
			`{"deletionPolicy":"Retain","parameters":{"force-create":"true",`+
				`"csi.storage.k8s.io/snapshotter-secret-name":"another"}}`))
	}
	isRepaired := func() error {
		class, err := o.get(e)
		if err != nil {
			return err
		}
		parameters, _, err := unstructured.NestedStringMap(class.Object, "parameters")
		policy, force := class.Object["deletionPolicy"], parameters["force-create"]
		assert.Assert(e.t, policy == "Retain" && force == "true",
			"the deletion policy is %v, force-create is %q", policy, force)
		secret := parameters["csi.storage.k8s.io/snapshotter-secret-name"]
		return errors.Join(err, checkEqual(loginSecret, secret))
	}
	change()
	e.touchDriver("policy") // the operator does not watch the object
	e.eventually(prompt, isRepaired)
	e.stopOperator()
	change()
	e.startOperator()
	e.eventually(installed, isRepaired)
}
