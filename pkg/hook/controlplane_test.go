package hook_test

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// manifest returns a new Deployment of a control plane.
func manifest() *appsv1.Deployment {
	labels := func() map[string]string {
		return map[string]string{"app": "driver", "component": "controller"}
	}
	apart := corev1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
		LabelSelector: &metav1.LabelSelector{MatchLabels: labels()}, TopologyKey: corev1.LabelHostname,
	}}
	together := corev1.WeightedPodAffinityTerm{
		Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname},
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: hosted, Name: "controller", Labels: labels()},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels()},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"node-role.kubernetes.io/master": ""},
					Tolerations:  []corev1.Toleration{{Key: "own", Operator: corev1.TolerationOpExists}},
					Affinity: &corev1.Affinity{
						PodAffinity: &corev1.PodAffinity{
							PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{together},
						},
						PodAntiAffinity: &corev1.PodAntiAffinity{
							PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{apart},
						},
					},
				},
			},
		},
	}
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
