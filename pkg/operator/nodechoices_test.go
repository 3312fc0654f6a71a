package operator

import (
	"encoding/json"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const choicesOfNodes = `
apiVersion: config.csi.openstack.org/v1alpha1
kind: CinderConfig
kubeletDir: /var/lib/k0s/kubelet
nodeSelector: {example.com/openstack: "true"}
tolerations: [{key: example.com/storage, operator: Exists, effect: NoSchedule}]
`

// TestChoicesForNodesReachEveryNodePlugin also covers the manifests for CSI-Addons.
func TestChoicesForNodesReachEveryNodePlugin(t *testing.T) {
	t.Parallel()
	for _, p := range append(plugins(), cinderPlugin()) {
		for _, addons := range []bool{false, true} {
			loaded, err := bundle.Load(p.Assets, flavour.Standalone)
			assert.NilError(t, err)
			asset := loaded.Select(bundle.NodeWorkload, flavour.Guest)[0]
			patches, err := bundle.LoadCSIAddons(p.Assets, flavour.Standalone)
			assert.NilError(t, err)
			if patch, found := patches.Find(asset.Name); found && addons {
				asset.Data, err = bundle.Patched(asset.Data, patch.Data, appsv1.DaemonSet{})
				assert.NilError(t, err)
			}
			checkNodeChoices(t, p.ConditionPrefix, asset, addons)
		}
	}
}

func checkNodeChoices(t *testing.T, driverName string, asset bundle.Asset, addons bool) {
	t.Helper()
	daemonSet := &appsv1.DaemonSet{}
	assert.NilError(t, yaml.UnmarshalStrict(asset.Data, daemonSet))
	f := clustertest.New(t, clustertest.Seed{
		Guest: []runtime.Object{choices(choicesOfNodes), daemonSet.DeepCopy()},
	})
	p := plugins()[1] // has no trusted CA bundle
	p.Setup = setUpChoices
	d := assembledIn(t, f, p)[0]
	recorder := d.events.(events.InMemoryRecorder)
	informers := f.Cluster.Side(flavour.Guest).ObjectInformers
	lister := informers.For(daemonSet.Namespace, daemonSet.Name).Apps().V1().DaemonSets().Lister()
	f.Start(t)
	assert.NilError(t, d.nodeChoicesHook(lister).DaemonSet(nil, daemonSet))
	pod := &daemonSet.Spec.Template.Spec
	text, err := json.Marshal(pod)
	assert.Check(t, err == nil && !strings.Contains(string(text), "/var/lib/kubelet") &&
		strings.Contains(string(text), `"/var/lib/k0s/kubelet`), "%s: %v, pod %s", driverName, err, text)
	for _, argument := range []string{"--stagingpath=", "--staging-path="} {
		folder := argument + "/var/lib/k0s/kubelet/plugins/kubernetes.io/csi"
		assert.Check(t, !addons || driverName != "OpenStackCinder" ||
			strings.Contains(string(text), folder), "%s is missing in %s", folder, text)
	}
	want := corev1.PodSpec{
		NodeSelector: map[string]string{"kubernetes.io/os": "linux", "example.com/openstack": "true"},
		Tolerations: []corev1.Toleration{{
			Key: "example.com/storage", Operator: "Exists", Effect: "NoSchedule",
		}},
	}
	got := corev1.PodSpec{NodeSelector: pod.NodeSelector, Tolerations: pod.Tolerations}
	assert.Check(t, is.DeepEqual(want, got), driverName)
	warned := len(clustertest.Messages(recorder, "KubeletDirChanged")) > 0
	assert.Check(t, is.Equal(warned, driverName != "NFS"), "%s: %v", driverName, recorder.Events())
}
