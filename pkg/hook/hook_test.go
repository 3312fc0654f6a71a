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
		Containers: []corev1.Container{
			{Name: "csi-driver", Env: []corev1.EnvVar{{Name: "A", Value: "a"}}}, {Name: "csi-provisioner"},
		},
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

// Only the driver gets the variables, in an order that causes no rollout.
func TestObservedProxySetsVariables(t *testing.T) {
	t.Parallel()
	own := corev1.EnvVar{Name: "A", Value: "a"}
	for observed, want := range map[string][]corev1.EnvVar{
		"":                        {own},
		`{"targetcsiconfig": {}}`: {own},
		`{"targetcsiconfig": {"proxy": {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".svc"}}}`: {
			own, {Name: "HTTPS_PROXY", Value: "http://p:1"}, {Name: "NO_PROXY", Value: ".svc"},
		},
	} {
		spec := &opv1.OperatorSpec{ObservedConfig: runtime.RawExtension{Raw: []byte(observed)}}
		wanted, _ := workloads()
		wanted.Spec.Template.Spec.Containers[0].Env = want
		deployment, daemonSet := workloads()
		assert.NilError(t, hook.ObservedProxy().Deployment(spec, deployment))
		assert.NilError(t, hook.ObservedProxy().DaemonSet(spec, daemonSet))
		assert.Check(t, is.DeepEqual(wanted.Spec, deployment.Spec), "Deployment")
		assert.Check(t, is.DeepEqual(wanted.Spec.Template, daemonSet.Spec.Template), "DaemonSet")
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
		assert.Check(t, is.Equal(*deployment.Spec.Replicas, want), topology)
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
	assert.Check(t, is.Len(deployment, 2))
	assert.Check(t, is.Len(informers, 4), "two ConfigMaps, a Secret, Infrastructures")
	daemonSet, informers := hook.DaemonSetHooks(hooks)
	assert.Check(t, is.Len(daemonSet, 1))
	assert.Check(t, is.Len(informers, 4))
}
