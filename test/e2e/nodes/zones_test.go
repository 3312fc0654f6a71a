//go:build e2e

package nodes

import (
	"os"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/e2e/cluster"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// zoneLabel is the label of a node with its zone, and that of the affinity of a PersistentVolume.
const zoneLabel = "topology.manila.csi.openstack.org/zone"

// enableTopology chooses topology, and creates the StorageClass again, with it. The driver on a
// node asks the metadata service for the zone.
const enableTopology = `
kubectl patch maniladriver/nfs.manila.csi.openstack.org --type=merge \
  --patch='{"spec": {"topology": "Enabled"}}'
label='topology\.manila\.csi\.openstack\.org/zone'
kubectl wait nodes --all --for=jsonpath="{.metadata.labels.$label}" --timeout=5m
kubectl wait maniladriver/nfs.manila.csi.openstack.org --for=condition=Ready --timeout=5m
kubectl delete storageclass csi-manila-default
kubectl wait --for=create storageclass/csi-manila-default --timeout=1m`

// A pod in a zone that is not the default of Manila gets a share there, and no pod elsewhere.
func TestSharesFollowPodsIntoZones(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{
		Name: "zones", Nodes: 2, Zones: []string{"az1", "az2"}, Drivers: []string{"manila"},
		Progress: os.Stderr,
	})
	assert.NilError(t, err)
	t.Cleanup(c.Stop)
	x := &pods.Test{T: t, Cluster: c}
	run := func(commands string) {
		t.Helper()
		x.Must(guide.Run(t.Context(), commands,
			"KUBECONFIG="+c.Dir.AdminKubeconfig(), "PATH="+c.Binaries+":"+os.Getenv("PATH")))
	}
	run(enableTopology)
	x.Claim("share", pods.ClaimSpec(pods.Manila()))
	create := func(name, zone string) {
		spec := pods.Spec("date >"+pods.DataPath+"/date; sleep infinity", "share")
		spec.NodeSelector = map[string]string{zoneLabel: zone}
		x.Create(name, spec)
	}
	create("there", "az2")
	x.Running("there")
	volumes, err := c.Client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	assert.NilError(t, err)
	assert.Assert(t, is.Len(volumes.Items, 1))
	zone := corev1.NodeSelectorRequirement{
		Key: zoneLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{"az2"},
	}
	assert.Check(t, is.DeepEqual(volumes.Items[0].Spec.NodeAffinity.Required.NodeSelectorTerms,
		[]corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}}))

	create("elsewhere", "az1")
	run("kubectl wait pod/elsewhere --namespace=" + pods.Namespace + " --timeout=1m --for=jsonpath=" +
		`'{.status.conditions[?(@.type=="PodScheduled")].reason}'=Unschedulable`)
}
