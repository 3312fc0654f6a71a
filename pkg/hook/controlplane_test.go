package hook_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
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
		return map[string]string{
			"app":       "driver",
			"component": "controller",
		}
	}
	apart := corev1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
		LabelSelector: &metav1.LabelSelector{MatchLabels: labels()}, TopologyKey: corev1.LabelHostname,
	}}
	together := corev1.WeightedPodAffinityTerm{
		Weight:          100,
		PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname},
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
		Flavour: flavour.HyperShift, OperatorNamespace: hosted,
		DriverNamespace: guest,
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
		Key: "added", Operator: corev1.TolerationOpExists,
		TolerationSeconds: ptr.To[int64](5),
	}
	own := manifest().Spec.Template.Spec.Tolerations[0]
	for _, test := range []struct {
		name string
		spec cluster.HostedControlPlaneSpec
		// want makes the expected changes to the manifest.
		want func(*appsv1.Deployment)
	}{
		{"nothing said", cluster.HostedControlPlaneSpec{}, func(*appsv1.Deployment) {}},
		{
			"single replica",
			cluster.HostedControlPlaneSpec{ControllerAvailabilityPolicy: cluster.SingleReplica},
			func(*appsv1.Deployment) {},
		},
		{
			"policy of a later release",
			cluster.HostedControlPlaneSpec{ControllerAvailabilityPolicy: "MoreThanAvailable"},
			func(*appsv1.Deployment) {},
		},
		{
			"highly available",
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
		{
			"node selector",
			cluster.HostedControlPlaneSpec{NodeSelector: map[string]string{"role": "infra"}},
			func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.NodeSelector = map[string]string{"role": "infra"}
			},
		},
		{
			"tolerations",
			cluster.HostedControlPlaneSpec{Tolerations: []corev1.Toleration{added, own, added}},
			func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Tolerations = []corev1.Toleration{
					own,
					added,
				}
			},
		},
		{
			"labels, of which one selects",
			cluster.HostedControlPlaneSpec{Labels: map[string]string{
				"app": "other", "component": "",
				"team": "a",
			}},
			func(d *appsv1.Deployment) { d.Spec.Template.Labels["team"] = "a" },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f, h := inHosted(t, test.spec)
			want := manifest()
			want.Spec.Replicas = ptr.To[int32](1)
			want.Spec.Template.Spec.NodeSelector = nil // it does not depend on the guest cluster
			test.want(want)
			assert.Check(t, is.DeepEqual(want, applied(t, h, manifest())), "Deployment")
			got, err := f.HostedControlPlane()
			assert.NilError(t, err)
			assert.Check(t, is.DeepEqual(test.spec.Labels, got.Spec.Labels), "the hook changes the cache")
		})
	}
}

func TestHostedControlPlaneAcceptsBareDeployment(t *testing.T) {
	t.Parallel()
	_, h := inHosted(t, cluster.HostedControlPlaneSpec{
		ControllerAvailabilityPolicy: cluster.HighlyAvailable, Labels: map[string]string{"team": "a"},
	})
	want := &appsv1.Deployment{}
	want.Spec.Replicas = ptr.To[int32](2)
	want.Spec.Template.Labels = map[string]string{"team": "a"}
	assert.Check(t, is.DeepEqual(want, applied(t, h, &appsv1.Deployment{})), "Deployment")
}

func TestChangedHostedControlPlaneIsFollowed(t *testing.T) {
	t.Parallel()
	f, h := inHosted(t, cluster.HostedControlPlaneSpec{})
	assert.Assert(t, slices.Contains(h.Informers, factory.Informer(f.HostedControlPlanes)),
		"a change repeats nothing: the hook does not name the informer")
	if got := *applied(t, h, manifest()).Spec.Replicas; got != 1 {
		t.Fatalf("%d replicas at first", got)
	}
	client := f.Side(flavour.ControlPlane).Dynamic.Resource(cluster.HostedControlPlanes()).
		Namespace(hosted)
	object, err := client.Get(t.Context(), "a", metav1.GetOptions{})
	assert.NilError(t, err)
	assert.NilError(t, unstructured.SetNestedField(object.Object, "HighlyAvailable", "spec",
		"controllerAvailabilityPolicy"))
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) {
			// Repeated, because the fake loses an update between the informer's list and its watch.
			if _, err := client.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
				return false, err
			}
			cached, err := f.HostedControlPlane()
			return err == nil && cached.Spec.ControllerAvailabilityPolicy == cluster.HighlyAvailable, err
		})
	assert.NilError(t, err, "the change does not come into the cache")
	if got := *applied(t, h, manifest()).Spec.Replicas; got != 2 {
		t.Errorf("%d replicas after the change", got)
	}
}

func TestMissingHostedControlPlaneIsAnError(t *testing.T) {
	t.Parallel()
	for want, specs := range map[string][]cluster.HostedControlPlaneSpec{
		"no HostedControlPlane": nil,
		"2 HostedControlPlanes ": {
			{NodeSelector: map[string]string{"role": "infra"}},
			{ControllerAvailabilityPolicy: cluster.HighlyAvailable},
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			_, h := inHosted(t, specs...)
			d := manifest()
			if err := h.Deployment(&opv1.OperatorSpec{}, d); err == nil ||
				!strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			assert.Check(t, is.DeepEqual(manifest(), d), "Deployment")
		})
	}
}

func TestProxySetsVariablesOnce(t *testing.T) {
	t.Parallel()
	variable := func(name, value string) corev1.EnvVar {
		return corev1.EnvVar{
			Name:  name,
			Value: value,
		}
	}
	from := corev1.EnvVar{
		Name: "NODE",
		ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"},
		},
	}
	proxy := []corev1.EnvVar{variable("HTTPS_PROXY", "http://p:1"), variable("NO_PROXY", ".svc")}
	for _, test := range []struct {
		name                   string
		variables, given, want []corev1.EnvVar
	}{
		{
			"no proxy", nil,
			[]corev1.EnvVar{from, variable("HTTPS_PROXY", "old")},
			[]corev1.EnvVar{from, variable("HTTPS_PROXY", "old")},
		},
		{"no proxy, no variables", nil, nil, nil},
		{"no variables", proxy, nil, proxy},
		{
			"others", proxy,
			[]corev1.EnvVar{variable("Z", "z"), from},
			append([]corev1.EnvVar{variable("Z", "z"), from}, proxy...),
		},
		{
			"the same, one of them twice", proxy,
			[]corev1.EnvVar{
				variable("NO_PROXY", "a"), from, variable("HTTPS_PROXY", ""),
				variable("NO_PROXY", "b"), variable("HTTP_PROXY", "c"),
			},
			append([]corev1.EnvVar{from, variable("HTTP_PROXY", "c")}, proxy...),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := &appsv1.Deployment{}
			for _, containers := range []*[]corev1.Container{
				&d.Spec.Template.Spec.InitContainers,
				&d.Spec.Template.Spec.Containers,
			} {
				*containers = []corev1.Container{
					{Name: "a", Env: test.given},
					{Name: "b", Env: slices.Clone(test.given)},
				}
			}
			daemonSet := &appsv1.DaemonSet{}
			daemonSet.Spec.Template = *d.Spec.Template.DeepCopy()
			proxy := hook.Proxy(test.variables)
			got := applied(t, hook.Workload{Deployment: proxy.Deployment}, d)
			again := applied(t, hook.Workload{Deployment: proxy.Deployment}, got)
			assert.Check(t, is.DeepEqual(got, again), "repeated")
			assert.NilError(t, proxy.DaemonSet(nil, daemonSet))
			assert.Check(t, is.DeepEqual(got.Spec.Template, daemonSet.Spec.Template), "pods")
			for _, c := range slices.Concat(got.Spec.Template.Spec.InitContainers,
				got.Spec.Template.Spec.Containers) {
				assert.Check(t, is.DeepEqual(test.want, c.Env), "environment of %s", c.Name)
			}
		})
	}
}

func TestRunAsUserSetsTheUserID(t *testing.T) {
	t.Parallel()
	other := corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), FSGroup: ptr.To[int64](7)}
	both := other
	both.RunAsUser = ptr.To[int64](1001)
	for _, test := range []struct {
		name        string
		id          *int64
		given, want *corev1.PodSecurityContext
	}{
		{"nobody says", nil, nil, nil},
		{"nobody says, others set", nil, &other, &other},
		{"set", ptr.To[int64](1001), nil, &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1001)}},
		{"set beside others", ptr.To[int64](1001), &other, &both},
		{
			"set in place of another", ptr.To[int64](1001),
			&corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1)},
			&corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1001)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d, want := manifest(), manifest()
			d.Spec.Template.Spec.SecurityContext = test.given
			want.Spec.Template.Spec.SecurityContext = test.want
			assert.Check(t, is.DeepEqual(want, applied(t, hook.RunAsUser(test.id), d)), "Deployment")
		})
	}
}
