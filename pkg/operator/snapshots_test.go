package operator

import (
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

func TestSnapshotsThatNoControllerProcessesAreReported(t *testing.T) {
	t.Parallel()
	const name = "OpenStackManilaSnapshotsServed"
	d := assembled(t, flavour.Standalone, plugins()...)[0]
	client := d.operator.(*clustertest.Operator)
	api := d.cluster.Side(flavour.Guest).Metadata.(*metadatafake.FakeMetadataClient)
	version := schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}
	add := func(name string, age time.Duration, finalizers ...string) {
		snapshot := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Finalizers: finalizers,
			CreationTimestamp: metav1.NewTime(d.clock.Now().Add(-age)),
		}}
		snapshot.SetGroupVersionKind(version.WithKind("VolumeSnapshot"))
		err := api.Tracker().Create(version.WithResource("volumesnapshots"), snapshot, "shop")
		assert.NilError(t, err)
	}
	_, err := d.volumeSnapshotClass("Test") // requests the CRD
	assert.NilError(t, err)
	d.cluster.Start(t.Context())
	sync := syncer(t, d, d.snapshotsServed)
	synced := func() opv1.OperatorCondition {
		assert.NilError(t, sync())
		return client.Condition(t, name)
	}
	add("young", time.Minute)
	add("bound", time.Hour, "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection")
	c := synced()
	assert.Check(t, c.Status == opv1.ConditionTrue && c.Reason == "AsExpected", "condition %+v", c)
	add("a", 10*time.Minute)
	add("oldest", time.Hour)
	want := condition(name, opv1.ConditionFalse, "NoSnapshotController",
		"No snapshot controller has processed VolumeSnapshot shop/oldest for more than 5m0s. Install a "+
			"snapshot controller, or check the logs of the one in the cluster")
	assert.Check(t, is.DeepEqual(want, synced()), "condition")
	refuse(&api.Fake, "list", "volumesnapshots", errors.New("etcdserver: request timed out"))
	assert.Check(t, is.DeepEqual(want, synced()), "condition while the list fails")
	refuse(&api.Fake, "list", "volumesnapshots", apierrors.NewNotFound(schema.GroupResource{}, ""))
	for range 2 {
		assert.Check(t, is.Equal(synced().Type, ""), "without the CRD")
	}
	assert.Check(t, is.Equal(client.Writes(), 3), "writes of True, of False, and of the removal")
	clustertest.PutCRD(t, api, "volumesnapshotclasses.snapshot.storage.k8s.io")
	clustertest.Eventually(t, func() bool { return synced().Reason == "NotServed" }, "only v1beta1")
}
