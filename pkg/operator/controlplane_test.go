package operator

import (
	"cmp"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

func proxyVariables(proxy, exceptions string) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "HTTPS_PROXY", Value: proxy},
		{Name: "HTTP_PROXY", Value: proxy},
		{Name: "NO_PROXY", Value: exceptions},
	}
}

// fit changes a Deployment with the hooks of the flavour.
func fit(t *testing.T, f flavour.Flavour, deployment *appsv1.Deployment) {
	t.Helper()
	seed := clustertest.Seed{
		Flavour: f, OperatorNamespace: "operators", DriverNamespace: operandNamespace,
		Config: infrastructure(f),
	}
	if f == flavour.HyperShift {
		seed.HostedControlPlanes = []*cluster.HostedControlPlane{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: "a"},
			Spec: cluster.HostedControlPlaneSpec{
				NodeSelector:                 map[string]string{"role": "infra"},
				Labels:                       map[string]string{"team": "a"},
				ControllerAvailabilityPolicy: cluster.HighlyAvailable,
			},
		}}
	}
	fake := clustertest.New(t, seed)
	d := assembledIn(t, fake, plugins()...)[0]
	d.settings.RunAsUser = ptr.To[int64](1001)
	d.settings.Proxy = proxyVariables("management", "management")
	none := func() *appsv1.Deployment { return nil }
	changes, _ := hook.DeploymentHooks(d.controlPlaneHooks(none))
	fake.Start(t)
	spec := &opv1.OperatorSpec{} // as the config observer writes it
	spec.ObservedConfig.Raw = []byte(`{"targetcsiconfig": {"proxy": {"HTTPS_PROXY": ` +
		`"http://cluster:1", "HTTP_PROXY": "http://cluster:1", "NO_PROXY": ".cluster"}}}`)
	for _, change := range changes {
		assert.NilError(t, change(spec, deployment))
	}
}

// The proxy of the guest cluster must not reach the control plane.
func TestHooksFitTheDeploymentToItsFlavour(t *testing.T) {
	t.Parallel()
	bare := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "operators", Name: "bare",
		Annotations: map[string]string{"config.openshift.io/inject-proxy": "csi-driver"},
	}}
	bare.Spec.Template.Spec.Containers = []corev1.Container{{Name: "csi-driver"}}
	standalone := bare.DeepCopy()
	standalone.Spec.Replicas = ptr.To[int32](2)
	hosted := standalone.DeepCopy()
	hosted.Annotations[hook.DesiredVersionAnnotation] = "4.21"
	hosted.Spec.Template.Labels = map[string]string{"team": "a"}
	pod := &hosted.Spec.Template.Spec
	pod.NodeSelector = map[string]string{"role": "infra"}
	pod.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1001)}
	pod.Containers[0].Env = proxyVariables("management", "management")
	standalone.Spec.Template.Spec.Containers[0].Env = proxyVariables("http://cluster:1", ".cluster")
	for f, want := range map[flavour.Flavour]*appsv1.Deployment{
		flavour.Standalone: standalone, flavour.HyperShift: hosted,
	} {
		got := bare.DeepCopy()
		fit(t, f, got)
		assert.Check(t, is.DeepEqual(want, got), "%s", f)
	}
}

func TestHooksOfThePluginOverrideTheOthers(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		p := plugins()[0]
		p.Setup = func(plugin.Dependencies) (plugin.Components, error) {
			own := hook.Workload{RolloutInputs: []hook.RolloutInput{{Kind: "Driver", Name: "own"}}}
			return plugin.Components{ControllerHooks: []hook.Workload{own}}, nil
		}
		hooks, err := assembled(t, f, p)[0].controllerHooks("", nil)
		assert.NilError(t, err)
		// Only RollOutDeployment follows, which has no inputs of its own.
		last := hooks[len(hooks)-2]
		assert.Check(t, len(last.RolloutInputs) == 1 && last.RolloutInputs[0].Name == "own",
			"%s: the driver's own is not last, but a hook with inputs %v", f, last.RolloutInputs)
	}
}

// The releases of the control plane and of the guest cluster may differ, and so their images.
func TestPlaceholdersOfEachSide(t *testing.T) {
	t.Parallel()
	expected := func(namespace, suffix string) []string {
		return []string{
			namespace, "registry.example/driver" + suffix, "registry.example/nfs_driver" + suffix,
			"registry.example/liveness_probe" + suffix, operandNamespace, "operators",
		}
	}
	for f, want := range map[flavour.Flavour]map[flavour.Side][]string{
		flavour.Standalone: {
			flavour.ControlPlane: expected(operandNamespace, "_image"),
			flavour.Guest:        expected(operandNamespace, "_image"),
		},
		flavour.HyperShift: {
			flavour.ControlPlane: expected("operators", "_control_plane_image"),
			flavour.Guest:        expected("operators", "_image"),
		},
	} {
		o := newTestOperator(t, f, plugins()...)
		for _, release := range []string{"4.21", ""} {
			o.settings.ReleaseVersion = release
			for side, values := range placeholders(o.bundles, o.settings, o.namespaces) {
				var got []string
				for _, name := range []string{
					bundle.Namespace, bundle.DriverImage, bundle.NFSDriverImage, bundle.LivenessProbeImage,
					bundle.NodeNamespace, bundle.OperatorNamespace,
				} {
					got = append(got, values[name])
				}
				assert.Check(t, is.DeepEqual(want[side], got), "%s, %s", f, side)
				assert.Check(t, is.Equal(values[bundle.ReleaseVersion], cmp.Or(release, unknownRelease)))
			}
		}
	}
}
