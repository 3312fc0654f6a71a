package operator

import (
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// snapshotsFixture is the controller of the condition about snapshots.
type snapshotsFixture struct {
	*testing.T

	driver     *driver
	client     *clustertest.Operator
	snapshots  *metadatafake.FakeMetadataClient
	controller factory.Controller
}

func newSnapshotsFixture(t *testing.T) *snapshotsFixture {
	t.Helper()
	f := &snapshotsFixture{
		T: t, driver: assembled(t, flavour.Standalone, plugins()...)[0], client: newFakeClient(t),
	}
	f.driver.operator = f.client
	f.snapshots = f.driver.cluster.Side(flavour.Guest).Metadata.(*metadatafake.FakeMetadataClient)
	var err error
	f.controller, err = f.driver.snapshotsServed("Snapshots")
	assert.NilError(t, err)
	return f
}

// add creates a VolumeSnapshot of an age.
func (f *snapshotsFixture) add(name string, age time.Duration, finalizers ...string) {
	f.Helper()
	version := schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}
	snapshot := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Finalizers: finalizers,
		CreationTimestamp: metav1.NewTime(f.driver.clock.Now().Add(-age)),
	}}
	snapshot.SetGroupVersionKind(version.WithKind("VolumeSnapshot"))
	err := f.snapshots.Tracker().
		Create(version.WithResource("volumesnapshots"), snapshot, snapshot.Namespace)
	assert.NilError(f, err)
}

// fail makes lists fail.
func (f *snapshotsFixture) fail(err error) {
	f.snapshots.PrependReactor("list", "volumesnapshots",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// condition syncs once, and returns the condition.
func (f *snapshotsFixture) condition() opv1.OperatorCondition {
	f.Helper()
	err := f.controller.Sync(f.Context(), factory.NewSyncContext("test", f.driver.events))
	assert.NilError(f, err)
	return f.client.Condition(f, "OpenStackManilaSnapshotsServed")
}

func TestSnapshotsThatNoControllerProcessesAreReported(t *testing.T) {
	t.Parallel()
	f := newSnapshotsFixture(t)
	f.add("young", time.Minute)
	f.add("bound", time.Hour, "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection")
	c := f.condition()
	assert.Check(t, c.Status == opv1.ConditionTrue && c.Reason == "AsExpected", "condition %+v", c)
	f.add("a", 10*time.Minute)
	f.add("oldest", time.Hour)
	want := condition("OpenStackManilaSnapshotsServed", opv1.ConditionFalse, "NoSnapshotController",
		"No snapshot controller has processed VolumeSnapshot shop/oldest for more than 5m0s. Install a "+
			"snapshot controller, or check the logs of the one in the cluster")
	assert.Check(t, is.DeepEqual(want, f.condition()), "condition")
	f.fail(errors.New("etcdserver: request timed out"))
	assert.Check(t, is.DeepEqual(want, f.condition()), "condition while the list fails")
	f.fail(apierrors.NewNotFound(schema.GroupResource{Resource: "volumesnapshots"}, ""))
	for range 2 {
		assert.Check(t, is.Equal(f.condition().Type, ""), "without the CRD")
	}
	assert.Check(t, is.Equal(f.client.Writes(), 3), "writes of True, of False, and of the removal")
}
