package operator

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const choicesOfNodes = `
kubeletDir: /var/lib/k0s/kubelet
pods:
  node:
    nodeSelector: {example.com/openstack: "true"}
    tolerations: [{key: example.com/storage, operator: Exists, effect: NoSchedule}]
`

// TestChoicesForNodesReachEveryNodePlugin also covers the manifests for CSI-Addons.
func TestChoicesForNodesReachEveryNodePlugin(t *testing.T) {
	t.Parallel()
	for _, p := range append(plugins(), cinderPlugin()) {
		for _, addons := range []bool{false, true} {
			loaded, err := bundle.Load(p.Assets, flavour.Kubernetes)
			assert.NilError(t, err)
			asset := loaded.Select(bundle.NodeWorkload, flavour.Guest)[0]
			patches, err := bundle.LoadCSIAddons(p.Assets, flavour.Kubernetes)
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
		Flavour: flavour.Kubernetes, Spec: choicesOfNodes,
		Guest: []runtime.Object{daemonSet.DeepCopy()},
	})
	p := plugins()[1] // has no trusted CA bundle
	p.Setup = setUpChoices
	d := assembledIn(t, f, p)[0]
	recorder := d.events.(events.InMemoryRecorder)
	deployed := f.DaemonSet(flavour.Guest, daemonSet.Namespace, daemonSet.Name).Get
	setSpec(t, f.State, opv1.OperatorSpec{
		ManagementState: opv1.Managed,
		ObservedConfig:  runtime.RawExtension{Raw: []byte(observedConfig)},
	})
	f.Start(t)
	assert.NilError(t, d.checkPods(t.Context()))
	assert.NilError(t, d.nodeChoicesHook(deployed).DaemonSet(nil, daemonSet))
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

// A normal installation has no ConfigMap with choices.
func TestStartWaitsOnlyForAConfigMapThatAnEarlierProcessKnew(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		mark    string
		created time.Duration
		want    time.Duration
	}{
		"a new cluster":    {},
		"it was known":     {mark: "true", want: plugin.ReplacementTime},
		"it is replaced":   {mark: "true", created: 3 * time.Second, want: 3 * time.Second},
		"it always exists": {mark: "true", created: -1},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := clustertest.New(t, clustertest.Seed{})
			p := cinderPlugin()
			p.Setup = setUpChoices
			d := assembledIn(t, f, p)[0]
			_, object, err := d.workload(bundle.NodeWorkload, flavour.Guest)
			assert.NilError(t, err)
			daemonSet := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
				Namespace: object.Namespace, Name: object.Name,
				Annotations: map[string]string{configuredAnnotation: tt.mark},
			}}
			clustertest.Put(t, f.Guest, daemonSet)
			f.DaemonSet(flavour.Guest, object.Namespace, object.Name) // as the workload controller
			create := func() { clustertest.Put(t, f.Guest, choices("")) }
			if tt.created < 0 {
				create()
			}
			f.Start(t)
			if tt.created > 0 {
				time.AfterFunc(tt.created, create)
			}
			began := time.Now()
			d.awaitChoices(t.Context())
			assert.Check(t, is.Equal(time.Since(began).Round(time.Second), tt.want), name)
		})
	}
}

func TestDaemonSetIsMarkedWhileThereAreChoices(t *testing.T) {
	t.Parallel()
	for _, exists := range []bool{true, false} {
		var objects []runtime.Object
		if exists {
			objects = append(objects, choices(""))
		}
		f := clustertest.New(t, clustertest.Seed{Guest: objects})
		p := cinderPlugin()
		p.Setup = setUpChoices
		d := assembledIn(t, f, p)[0]
		marked := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "b", Annotations: map[string]string{configuredAnnotation: "true"},
		}}
		f.Start(t)
		wanted := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
		deployed := func() *appsv1.DaemonSet { return marked }
		assert.NilError(t, d.configuredHook(deployed).DaemonSet(nil, wanted))
		want := map[string]string{configuredAnnotation: "true"}
		if !exists {
			want = map[string]string{configuredAnnotation + "-": ""}
		}
		assert.Check(t, is.DeepEqual(want, wanted.Annotations))
	}
}
