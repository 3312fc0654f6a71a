package assets_test

import (
	"fmt"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/assets/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// eachCinder runs a test for Cinder's bundle of every flavour.
func eachCinder(t *testing.T, test func(t *testing.T, f flavour.Flavour, b *bundle.Bundle)) {
	t.Helper()
	for _, f := range flavour.All() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			loaded, err := bundle.Load(cinder.Assets(), f)
			assert.NilError(t, err)
			test(t, f, loaded)
		})
	}
}

func TestCinderObjectsHaveTheNamesOfExistingClusters(t *testing.T) {
	t.Parallel()
	eachCinder(t, func(t *testing.T, f flavour.Flavour, b *bundle.Bundle) {
		got := map[string]string{}
		for _, asset := range b.Assets() {
			var object metav1.PartialObjectMetadata
			assert.NilError(t, yaml.Unmarshal(asset.Data, &object))
			if object.Kind != "ClusterRole" && object.Kind != "ClusterRoleBinding" &&
				object.Kind != "Role" && object.Kind != "RoleBinding" {
				got[asset.Name] = fmt.Sprintf("%s %s/%s %s", object.Kind, object.Namespace, object.Name,
					asset.Role)
			}
		}
		want := map[string]string{
			"controller.yaml": "Deployment ${NAMESPACE}/openstack-cinder-csi-driver-controller " +
				"controllerWorkload",
			"controller_sa.yaml": "ServiceAccount " +
				"${NAMESPACE}/openstack-cinder-csi-driver-controller-sa static",
			"controller_pdb.yaml": "PodDisruptionBudget " +
				"${NAMESPACE}/openstack-cinder-csi-driver-controller-pdb static",
			"cabundle_cm.yaml": "ConfigMap " +
				"${NAMESPACE}/openstack-cinder-csi-driver-trusted-ca-bundle static",
			"node.yaml": "DaemonSet ${NODE_NAMESPACE}/openstack-cinder-csi-driver-node " +
				"nodeWorkload",
			"node_sa.yaml": "ServiceAccount " +
				"${NODE_NAMESPACE}/openstack-cinder-csi-driver-node-sa static",
			"csidriver.yaml":           "CSIDriver /cinder.csi.openstack.org csiDriver",
			"storageclass.yaml":        "StorageClass /standard-csi storageClass",
			"volumesnapshotclass.yaml": "VolumeSnapshotClass /standard-csi snapshotClass",
		}
		if f == flavour.Standalone { // in a management cluster the operator may not write ServiceMonitors
			want["service.yaml"] = "Service " +
				"${NAMESPACE}/openstack-cinder-csi-driver-controller-metrics static"
			want["servicemonitor.yaml"] = "ServiceMonitor " +
				"${NAMESPACE}/openstack-cinder-csi-driver-controller-monitor serviceMonitor"
			want["operator_servicemonitor.yaml"] = "ServiceMonitor " +
				"${OPERATOR_NAMESPACE}/openstack-cinder-csi-driver-operator operatorMonitor"
		} else { // the nodes are in the guest cluster, which has its own trusted CAs
			want["node_cabundle_cm.yaml"] = "ConfigMap " +
				"${NODE_NAMESPACE}/openstack-cinder-csi-driver-trusted-ca-bundle static"
		}
		assert.Check(t, is.DeepEqual(want, got), "objects")
	})
}
