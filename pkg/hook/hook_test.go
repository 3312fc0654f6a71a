package hook_test

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	hosted = "clusters-a"
	guest  = "openshift-x"
)

// workloads returns new manifests, as controllers create them in each sync.
func workloads() (*appsv1.Deployment, *appsv1.DaemonSet) {
	annotations := map[string]string{
		"config.openshift.io/inject-proxy":          "csi-driver",
		"config.openshift.io/inject-proxy-cabundle": "csi-driver",
	}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "csi-driver-nfs"}},
		Containers: []corev1.Container{{
			Name: "csi-driver",
			Env:  []corev1.EnvVar{{Name: "A", Value: "a"}},
		}, {Name: "csi-provisioner"}},
	}}
	meta := metav1.ObjectMeta{Namespace: guest, Name: "driver", Annotations: annotations}
	return &appsv1.Deployment{
			ObjectMeta: *meta.DeepCopy(),
			Spec:       appsv1.DeploymentSpec{Template: *template.DeepCopy()},
		},
		&appsv1.DaemonSet{
			ObjectMeta: *meta.DeepCopy(),
			Spec:       appsv1.DaemonSetSpec{Template: *template.DeepCopy()},
		}
}

// change applies a hook to new manifests.
func change(t *testing.T, h hook.Workload, spec *opv1.OperatorSpec) (*appsv1.Deployment,
	*appsv1.DaemonSet,
) {
	t.Helper()
	deployment, daemonSet := workloads()
	assert.NilError(t, h.Deployment(spec, deployment))
	assert.NilError(t, h.DaemonSet(spec, daemonSet))
	return deployment, daemonSet
}

func TestObservedProxySetsVariables(t *testing.T) {
	t.Parallel()
	observed := `{"targetcsiconfig": {"proxy": {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".svc"}}}`
	own := corev1.EnvVar{Name: "A", Value: "a"}
	for _, test := range []struct {
		name, observed string
		want           []corev1.EnvVar
	}{
		{"none observed", "", []corev1.EnvVar{own}},
		{"no proxy", `{"targetcsiconfig": {}}`, []corev1.EnvVar{own}},
		{"proxy", observed, []corev1.EnvVar{
			own,
			{Name: "HTTPS_PROXY", Value: "http://p:1"},
			{Name: "NO_PROXY", Value: ".svc"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			spec := &opv1.OperatorSpec{ObservedConfig: runtime.RawExtension{Raw: []byte(test.observed)}}
			for range 3 { // map iteration must not change the order, which would cause a rollout
				deployment, daemonSet := change(t, hook.ObservedProxy(), spec)
				for _, pod := range []corev1.PodSpec{
					deployment.Spec.Template.Spec,
					daemonSet.Spec.Template.Spec,
				} {
					assert.Check(t, is.DeepEqual(test.want, pod.Containers[0].Env), "environment of the driver")
					assert.Check(t, pod.Containers[1].Env == nil && pod.InitContainers[0].Env == nil,
						"containers that the annotation does not name get the proxy")
				}
			}
		})
	}
}

func TestTopologySetsReplicas(t *testing.T) {
	t.Parallel()
	for topology, want := range map[configv1.TopologyMode]int32{
		configv1.HighlyAvailableTopologyMode: 2, configv1.SingleReplicaTopologyMode: 1,
		configv1.ExternalTopologyMode: 1,
	} {
		infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		infrastructure.Status.ControlPlaneTopology = topology
		f := clustertest.New(t, clustertest.Seed{Config: []runtime.Object{infrastructure}})
		h := hook.Topology(f.Cluster)
		f.Start(t)
		deployment, _ := workloads()
		assert.NilError(t, h.Deployment(&opv1.OperatorSpec{}, deployment))
		if h.DaemonSet != nil || *deployment.Spec.Replicas != want {
			t.Errorf("%s: %d replicas, want %d", topology, *deployment.Spec.Replicas, want)
		}
	}
}

func TestHooksAreSplitForLibraryGo(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{DriverNamespace: guest})
	hooks := []hook.Workload{
		hook.ConfigMapHash(f.Cluster, flavour.Guest, "a"),
		hook.ConfigMapHash(f.Cluster, flavour.ControlPlane, "b"),
		hook.TrustedCABundle(f.Cluster, flavour.Guest, "a"),
		hook.SecretHash(f.Cluster, flavour.Guest, "a"),
		hook.Topology(f.Cluster),
		hook.ObservedProxy(),
		{},
	}
	deployment, informers := hook.DeploymentHooks(hooks)
	if len(deployment) != 2 || len(informers) != 4 {
		t.Errorf("%d changes of Deployments and %d informers, want 2 and 4: "+
			"two ConfigMaps, a Secret, Infrastructures", len(deployment), len(informers))
	}
	daemonSet, informers := hook.DaemonSetHooks(hooks)
	assert.Check(t, len(daemonSet) == 1 && len(informers) == 4,
		"%d changes of DaemonSets and %d informers, want 1 and 4", len(daemonSet), len(informers))
}
