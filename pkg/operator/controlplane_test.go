package operator

import (
	"cmp"
	"strings"
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

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// proxied returns the names of the proxy variables.
func proxied() []string { return []string{"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"} }

// observedProxy returns a spec with the proxy of the cluster, as the config observer writes it.
func observedProxy() *opv1.OperatorSpec {
	return &opv1.OperatorSpec{ObservedConfig: runtime.RawExtension{Raw: []byte(
		`{"targetcsiconfig": {"proxy": {"HTTPS_PROXY": "http://cluster:1", ` +
			`"HTTP_PROXY": "http://cluster:1", "NO_PROXY": ".cluster"}}}`,
	)}}
}

// fit changes a Deployment with the hooks of the flavour.
func fit(t *testing.T, f flavour.Flavour, p plugin.Driver, deployment *appsv1.Deployment) {
	t.Helper()
	seed := clustertest.Seed{
		Flavour: f, OperatorNamespace: "operators", DriverNamespace: p.Namespace,
		Config: infrastructure(configv1.HighlyAvailableTopologyMode),
	}
	if f == flavour.HyperShift {
		seed.Config = infrastructure(configv1.ExternalTopologyMode)
		seed.HostedControlPlanes = []*cluster.HostedControlPlane{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: "a"},
			Spec: cluster.HostedControlPlaneSpec{
				NodeSelector:                 map[string]string{"role": "infra"},
				Labels:                       map[string]string{"team": "a"},
				ControllerAvailabilityPolicy: cluster.HighlyAvailable,
			},
		}}
	}
	d := assembled(t, f, p)[0]
	d.settings.RunAsUser = ptr.To[int64](1001)
	for _, name := range proxied() {
		d.settings.Proxy = append(d.settings.Proxy, corev1.EnvVar{Name: name, Value: "management"})
	}
	fake := clustertest.New(t, seed)
	d.cluster = fake.Cluster
	deployments := d.cluster.Side(flavour.ControlPlane).ObjectInformers.
		For(d.cluster.Namespaces.ControlPlane, "driver").Apps().V1().Deployments().Lister()
	changes, _ := hook.DeploymentHooks(d.controlPlaneHooks(deployments))
	fake.Start(t)
	for _, change := range changes {
		assert.NilError(t, change(observedProxy(), deployment))
	}
}

// eachDeployment runs a test for each driver with a Deployment.
func eachDeployment(t *testing.T, test func(t *testing.T, name string, p plugin.Driver)) {
	t.Helper()
	for name, p := range map[string]plugin.Driver{"Manila": plugins()[0], "Cinder": cinderPlugin()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, p)
		})
	}
}

// The proxy of the guest cluster must not reach the control plane.
func TestHooksFitTheDeploymentToItsFlavour(t *testing.T) {
	t.Parallel()
	bare := func() *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "operators", Name: "bare",
			Annotations: map[string]string{"config.openshift.io/inject-proxy": "csi-driver"},
		}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "csi-driver"}}
		return d
	}
	for f, want := range map[flavour.Flavour]func(*corev1.PodSpec) (proxy []string){
		flavour.Standalone: func(*corev1.PodSpec) []string {
			return []string{"http://cluster:1", "http://cluster:1", ".cluster"}
		},
		flavour.HyperShift: func(pod *corev1.PodSpec) []string {
			pod.NodeSelector = map[string]string{"role": "infra"}
			pod.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1001)}
			return []string{"management", "management", "management"}
		},
	} {
		d, got := bare(), bare()
		d.Spec.Replicas = ptr.To[int32](2)
		pod := &d.Spec.Template.Spec
		for i, value := range want(pod) {
			pod.Containers[0].Env = append(pod.Containers[0].Env,
				corev1.EnvVar{Name: proxied()[i], Value: value})
		}
		if f == flavour.HyperShift {
			d.Annotations[hook.DesiredVersionAnnotation] = "4.21"
			d.Spec.Template.Labels = map[string]string{"team": "a"}
		}
		fit(t, f, plugins()[0], got)
		assert.Check(t, is.DeepEqual(d, got), "%s", f)
	}
}

func TestHooksOfThePluginOverrideTheOthers(t *testing.T) {
	t.Parallel()
	for _, f := range []flavour.Flavour{flavour.Standalone, flavour.HyperShift} {
		p := plugins()[0]
		p.Setup = func(plugin.Dependencies) (plugin.Components, error) {
			return plugin.Components{
				ControllerHooks: []hook.Workload{
					{RolloutInputs: []hook.RolloutInput{{Kind: "Driver", Name: "own"}}},
				},
			}, nil
		}
		hooks, err := assembled(t, f, p)[0].controllerHooks(nil)
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
	images := func(namespace, suffix string) []string {
		return []string{namespace, "driver" + suffix, "nfs_driver" + suffix, "liveness_probe" + suffix}
	}
	for f, want := range map[flavour.Flavour]map[flavour.Side][]string{
		flavour.Standalone: {
			flavour.ControlPlane: images(operandNamespace, "_image"),
			flavour.Guest:        images(operandNamespace, "_image"),
		},
		flavour.HyperShift: {
			flavour.ControlPlane: images("operators", "_control_plane_image"),
			flavour.Guest:        images("operators", "_image"),
		},
	} {
		o := newTestOperator(t, f, plugins()...)
		for _, release := range []string{"4.21", ""} {
			o.settings.ReleaseVersion = release
			for side, values := range placeholders(o.bundles, o.settings, o.namespaces) {
				got := []string{values[bundle.Namespace]}
				for _, image := range []string{
					bundle.DriverImage, bundle.NFSDriverImage, bundle.LivenessProbeImage,
				} {
					got = append(got, strings.TrimPrefix(values[image], "registry.example/"))
				}
				assert.Check(t, is.DeepEqual(want[side], got), "%s, %s", f, side)
				got = []string{
					values[bundle.NodeNamespace], values[bundle.OperatorNamespace],
					values[bundle.ReleaseVersion],
				}
				assert.Check(t, is.DeepEqual(
					[]string{operandNamespace, "operators", cmp.Or(release, unknownRelease)}, got))
			}
		}
	}
}
