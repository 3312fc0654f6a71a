package hook_test

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
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
		`{"targetcsiconfig": {"proxy": {"HTTPS_PROXY": "http://u:a$$b$(A)@p:1"}}}`: {
			own, {Name: "HTTPS_PROXY", Value: "http://u:a$$$$b$$(A)@p:1"},
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

// manifest returns a new Deployment of a control plane.
func manifest() *appsv1.Deployment {
	labels := map[string]string{"app": "driver", "component": "controller"}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	terms := []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
		LabelSelector: selector, TopologyKey: corev1.LabelHostname,
	}}}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: hosted, Name: "controller", Labels: labels},
		Spec:       appsv1.DeploymentSpec{Selector: selector},
	}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec = corev1.PodSpec{
		NodeSelector: map[string]string{"node-role.kubernetes.io/master": ""},
		Tolerations:  []corev1.Toleration{{Key: "own", Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{
			PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms},
			PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms},
		},
	}
	return d.DeepCopy() // which shares no labels and terms
}

// applied applies the hook to a copy. It does so twice and compares the results.
func applied(t *testing.T, h hook.Workload, d *appsv1.Deployment) *appsv1.Deployment {
	t.Helper()
	first, second := d.DeepCopy(), d.DeepCopy()
	for _, fresh := range []*appsv1.Deployment{first, second} {
		assert.NilError(t, h.Deployment(&opv1.OperatorSpec{}, fresh))
	}
	assert.Check(t, is.DeepEqual(first, second), "a second Deployment is made another")
	assert.Check(t, h.DaemonSet == nil, "changes DaemonSets: nodes are in the guest")
	return first
}

// inHosted returns a fake management cluster with HostedControlPlanes of the specs, and the hook.
func inHosted(t *testing.T, specs ...cluster.HostedControlPlaneSpec) (*clustertest.Fake,
	hook.Workload,
) {
	t.Helper()
	seed := clustertest.Seed{
		Flavour: flavour.HyperShift, OperatorNamespace: hosted, DriverNamespace: guest,
	}
	for i, spec := range specs {
		seed.HostedControlPlanes = append(seed.HostedControlPlanes, &cluster.HostedControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: hosted, Name: string(rune('a' + i))}, Spec: spec,
		})
	}
	f := clustertest.New(t, seed)
	h := hook.HostedControlPlane(f.Cluster)
	f.Start(t)
	return f, h
}

func TestHostedControlPlaneConfiguresTheDeployment(t *testing.T) {
	t.Parallel()
	added := corev1.Toleration{
		Key: "added", Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To[int64](5),
	}
	own := manifest().Spec.Template.Spec.Tolerations[0]
	for name, test := range map[string]struct {
		spec cluster.HostedControlPlaneSpec
		// want makes the expected changes to the manifest.
		want func(*appsv1.Deployment)
	}{
		"a policy of a later release": {
			cluster.HostedControlPlaneSpec{ControllerAvailabilityPolicy: "MoreThanAvailable"},
			func(*appsv1.Deployment) {},
		},
		"highly available": {
			cluster.HostedControlPlaneSpec{ControllerAvailabilityPolicy: cluster.HighlyAvailable},
			func(d *appsv1.Deployment) {
				d.Spec.Replicas = ptr.To[int32](2)
				apart := d.Spec.Template.Spec.Affinity.PodAntiAffinity
				apart.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{
					apart.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm,
				}
				apart.PreferredDuringSchedulingIgnoredDuringExecution = nil
			},
		},
		// The selector depends on the labels of the manifest.
		"others": {
			cluster.HostedControlPlaneSpec{
				NodeSelector: map[string]string{"role": "infra"},
				Tolerations:  []corev1.Toleration{added, own, added},
				Labels:       map[string]string{"app": "other", "component": "", "team": "a"},
			},
			func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.NodeSelector = map[string]string{"role": "infra"}
				d.Spec.Template.Spec.Tolerations = []corev1.Toleration{own, added}
				d.Spec.Template.Labels["team"] = "a"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, h := inHosted(t, test.spec)
			assert.Check(t, slices.Contains(h.Informers, factory.Informer(f.HostedControlPlanes)),
				"a change repeats nothing: the hook does not name the informer")
			want := manifest()
			want.Spec.Replicas = ptr.To[int32](1)
			want.Spec.Template.Spec.NodeSelector = nil // it does not depend on the guest cluster
			test.want(want)
			assert.Check(t, is.DeepEqual(want, applied(t, h, manifest())), "Deployment")
			got, err := f.HostedControlPlane()
			assert.NilError(t, err)
			assert.Check(t, is.DeepEqual(test.spec.Labels, got.Spec.Labels), "the hook changes the cache")
			assert.NilError(t, h.Deployment(&opv1.OperatorSpec{}, &appsv1.Deployment{}), "a bare one")
		})
	}
	_, h := inHosted(t)
	d := manifest()
	assert.Check(t, is.ErrorContains(h.Deployment(&opv1.OperatorSpec{}, d), "no HostedControlPlane"))
	assert.Check(t, is.DeepEqual(manifest(), d), "Deployment without a HostedControlPlane")
}

func TestProxySetsVariablesOnce(t *testing.T) {
	t.Parallel()
	variable := func(name, value string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, Value: value}
	}
	from := corev1.EnvVar{Name: "NODE", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"},
	}}
	proxy := []corev1.EnvVar{variable("HTTPS_PROXY", "http://p:1"), variable("NO_PROXY", ".svc")}
	given := []corev1.EnvVar{
		variable("NO_PROXY", "a"), from, variable("HTTPS_PROXY", ""), variable("NO_PROXY", "b"),
		variable("HTTP_PROXY", "c"),
	}
	for _, test := range []struct{ variables, given, want []corev1.EnvVar }{
		{nil, given, given},
		{proxy, nil, proxy},
		{
			[]corev1.EnvVar{variable("HTTP_PROXY", "http://u:a$(A)@p:1")},
			nil,
			[]corev1.EnvVar{variable("HTTP_PROXY", "http://u:a$$(A)@p:1")},
		},
		{proxy, given, append([]corev1.EnvVar{from, variable("HTTP_PROXY", "c")}, proxy...)},
	} {
		pods := func(env []corev1.EnvVar) (ret corev1.PodTemplateSpec) {
			containers := []corev1.Container{{Name: "a", Env: env}, {Name: "b", Env: slices.Clone(env)}}
			ret.Spec = corev1.PodSpec{InitContainers: containers, Containers: containers}
			return *ret.DeepCopy()
		}
		proxy, want := hook.Proxy(test.variables), pods(test.want)
		d, daemonSet := &appsv1.Deployment{}, &appsv1.DaemonSet{}
		d.Spec.Template, daemonSet.Spec.Template = pods(test.given), pods(test.given)
		for range 2 {
			assert.NilError(t, proxy.Deployment(nil, d))
			assert.NilError(t, proxy.DaemonSet(nil, daemonSet))
			assert.Check(t, is.DeepEqual(want, d.Spec.Template), "pods of the Deployment")
			assert.Check(t, is.DeepEqual(want, daemonSet.Spec.Template), "pods of the DaemonSet")
		}
	}
}

func TestRunAsUserSetsTheUserID(t *testing.T) {
	t.Parallel()
	other := corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), FSGroup: ptr.To[int64](7)}
	both := other
	both.RunAsUser = ptr.To[int64](1001)
	for _, test := range []struct {
		id          *int64
		given, want *corev1.PodSecurityContext
	}{
		{nil, &other, &other},
		{ptr.To[int64](1001), nil, &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1001)}},
		{ptr.To[int64](1001), &other, &both},
	} {
		d, want := manifest(), manifest()
		d.Spec.Template.Spec.SecurityContext = test.given
		want.Spec.Template.Spec.SecurityContext = test.want
		assert.Check(t, is.DeepEqual(want, applied(t, hook.RunAsUser(test.id), d)), "Deployment")
	}
}
