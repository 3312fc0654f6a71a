package operator

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	cinder "github.com/openstack-csi/csi-operator/assets/drivers/cinder"
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

// fitted returns the given Deployment, or the generated one, after the hooks of the flavour.
func fitted(
	t *testing.T, f flavour.Flavour, p plugin.Driver, given *appsv1.Deployment,
) *appsv1.Deployment {
	t.Helper()
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	infrastructure.Status.ControlPlaneTopology = configv1.HighlyAvailableTopologyMode
	seed := clustertest.Seed{
		Flavour: f, OperatorNamespace: "operators", DriverNamespace: p.Namespace,
		Config: []runtime.Object{infrastructure},
	}
	if f == flavour.HyperShift {
		infrastructure.Status.ControlPlaneTopology = configv1.ExternalTopologyMode
		seed.HostedControlPlanes = []*cluster.HostedControlPlane{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: "a"},
			Spec: cluster.HostedControlPlaneSpec{
				NodeSelector: map[string]string{"role": "infra"},
				Tolerations: []corev1.Toleration{
					{Key: "role", Operator: corev1.TolerationOpExists},
				},
				Labels:                       map[string]string{"team": "a", "app": "other"},
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
	if given == nil {
		given = generated(t, d)
	}
	for _, change := range changes {
		assert.NilError(t, change(observedProxy(), given))
	}
	return given
}

func generated(t *testing.T, d *driver) *appsv1.Deployment {
	t.Helper()
	asset, object, err := d.workload(bundle.ControllerWorkload, flavour.ControlPlane)
	assert.Assert(t, err == nil && object != nil, "%v, %v", object, err)
	deployment := &appsv1.Deployment{}
	assert.NilError(t, yaml.UnmarshalStrict(asset.Data, deployment))
	return deployment
}

// environment returns the values of all variables of a container with this name.
func environment(c *corev1.Container, name string) (values []string) {
	for _, variable := range c.Env {
		if variable.Name == name {
			values = append(values, variable.Value)
		}
	}
	return values
}

// eachDeployment runs a test for each driver with a Deployment.
func eachDeployment(t *testing.T, test func(t *testing.T, name string, p plugin.Driver)) {
	t.Helper()
	for name, p := range map[string]plugin.Driver{
		"Manila": plugins()[0],
		"Cinder": {
			Name: opv1.CinderCSIDriver, ConditionPrefix: "OpenStackCinder", Assets: cinder.Assets(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, name, p)
		})
	}
}

func TestHooksFitTheDeploymentToAHostedControlPlane(t *testing.T) {
	t.Parallel()
	eachDeployment(t, func(t *testing.T, _ string, p plugin.Driver) {
		before := generated(t, assembled(t, flavour.HyperShift, p)[0])
		after := fitted(t, flavour.HyperShift, p, nil)
		pod := after.Spec.Template.Spec
		got := []any{
			*after.Spec.Replicas, pod.NodeSelector, *pod.SecurityContext.RunAsUser,
			after.Annotations[hook.DesiredVersionAnnotation],
		}
		diff := cmp.Diff([]any{int32(2), map[string]string{"role": "infra"}, int64(1001), "4.21"}, got)
		assert.Check(t, diff == "", "replicas, node selector, user, release (-want +got):\n%s", diff)
		apart := pod.Affinity.PodAntiAffinity
		if len(apart.RequiredDuringSchedulingIgnoredDuringExecution) != 1 ||
			apart.PreferredDuringSchedulingIgnoredDuringExecution != nil {
			t.Errorf("anti-affinity is %+v, want it to be required", apart)
		}
		diff = cmp.Diff(before.Spec.Template.Spec.Affinity.PodAffinity, pod.Affinity.PodAffinity)
		assert.Check(t, diff == "", "co-location (-before +after):\n%s", diff)
		tolerations := append(
			before.Spec.Template.Spec.Tolerations,
			corev1.Toleration{Key: "role", Operator: corev1.TolerationOpExists},
		)
		assert.Check(t, is.DeepEqual(tolerations, pod.Tolerations), "tolerations")
		labels := before.Spec.Template.Labels
		labels["team"] = "a"
		assert.Check(t, is.DeepEqual(labels, after.Spec.Template.Labels), "labels of pods")
		assert.Check(t, is.DeepEqual(before.Spec.Selector, after.Spec.Selector), "selector")
	})
}

// The proxy of the guest cluster must not reach the control plane, nor may a variable exist twice.
func TestEachContainerGetsTheProxyOfTheManagementClusterOnce(t *testing.T) {
	t.Parallel()
	eachDeployment(t, func(t *testing.T, name string, p plugin.Driver) {
		pod := fitted(t, flavour.HyperShift, p, nil).Spec.Template.Spec
		containers := slices.Concat(pod.InitContainers, pod.Containers)
		for i := range containers {
			for _, variable := range proxied() {
				diff := cmp.Diff([]string{"management"}, environment(&containers[i], variable))
				if diff != "" {
					t.Errorf("%s in %s (-want +got):\n%s", variable, containers[i].Name, diff)
				}
			}
		}
		named := func(c corev1.Container) bool { return c.Name == "csi-driver-nfs" }
		assert.Check(t, is.Equal(slices.ContainsFunc(pod.InitContainers, named), (name == "Manila")),
			"has the init container csi-driver-nfs")
	})
}

func TestHooksSetReplicasAndProxyOfAStandaloneDeployment(t *testing.T) {
	t.Parallel()
	eachDeployment(t, func(t *testing.T, _ string, p plugin.Driver) {
		want := generated(t, assembled(t, flavour.Standalone, p)[0])
		want.Spec.Replicas = ptr.To[int32](2)
		driver := want.Annotations["config.openshift.io/inject-proxy"]
		for i := range want.Spec.Template.Spec.Containers {
			c := &want.Spec.Template.Spec.Containers[i]
			if c.Name == driver {
				c.Env = append(c.Env,
					corev1.EnvVar{Name: "HTTPS_PROXY", Value: "http://cluster:1"},
					corev1.EnvVar{Name: "HTTP_PROXY", Value: "http://cluster:1"},
					corev1.EnvVar{Name: "NO_PROXY", Value: ".cluster"},
				)
			}
		}
		assert.Check(t, is.DeepEqual(want, fitted(t, flavour.Standalone, p, nil)), "Deployment")
	})
}

func TestHooksWorkOnADeploymentWithoutOptionalFields(t *testing.T) {
	t.Parallel()
	bare := func() *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "operators", Name: "bare"}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "csi-driver"}}
		return d
	}
	for f, want := range map[flavour.Flavour]func(*appsv1.Deployment){
		flavour.Standalone: func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](2) },
		flavour.HyperShift: func(d *appsv1.Deployment) {
			d.Annotations = map[string]string{hook.DesiredVersionAnnotation: "4.21"}
			d.Spec.Replicas = ptr.To[int32](2)
			d.Spec.Template.Labels = map[string]string{"team": "a", "app": "other"}
			pod := &d.Spec.Template.Spec
			pod.NodeSelector = map[string]string{"role": "infra"}
			pod.Tolerations = []corev1.Toleration{{Key: "role", Operator: corev1.TolerationOpExists}}
			pod.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1001)}
			for _, name := range proxied() {
				pod.Containers[0].Env = append(pod.Containers[0].Env,
					corev1.EnvVar{Name: name, Value: "management"})
			}
		},
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			d := bare()
			want(d)
			assert.Check(t, is.DeepEqual(d, fitted(t, f, plugins()[0], bare())), "Deployment")
		})
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

func TestPlaceholdersOfEachSide(t *testing.T) {
	t.Parallel()
	for f, want := range map[flavour.Flavour]map[flavour.Side]map[string]string{
		flavour.Standalone: {
			flavour.ControlPlane: {
				bundle.Namespace: operandNamespace, bundle.NodeNamespace: operandNamespace,
				bundle.ReleaseVersion:    "4.21",
				bundle.OperatorNamespace: "operators",
				bundle.DriverImage:       "DRIVER_IMAGE", bundle.NFSDriverImage: "NFS_DRIVER_IMAGE",
				bundle.LivenessProbeImage: "LIVENESS_PROBE_IMAGE",
				bundle.KubeRBACProxyImage: "KUBE_RBAC_PROXY_IMAGE",
				bundle.ProvisionerImage:   "PROVISIONER_IMAGE", bundle.ResizerImage: "RESIZER_IMAGE",
				bundle.SnapshotterImage: "SNAPSHOTTER_IMAGE",
			},
			flavour.Guest: {
				bundle.Namespace: operandNamespace, bundle.NodeNamespace: operandNamespace,
				bundle.ReleaseVersion:    "4.21",
				bundle.OperatorNamespace: "operators",
				bundle.DriverImage:       "DRIVER_IMAGE", bundle.NFSDriverImage: "NFS_DRIVER_IMAGE",
				bundle.LivenessProbeImage:       "LIVENESS_PROBE_IMAGE",
				bundle.NodeDriverRegistrarImage: "NODE_DRIVER_REGISTRAR_IMAGE",
			},
		},
		flavour.HyperShift: {
			flavour.ControlPlane: {
				bundle.Namespace: "operators", bundle.NodeNamespace: operandNamespace,
				bundle.ReleaseVersion:     "4.21",
				bundle.OperatorNamespace:  "operators",
				bundle.DriverImage:        "DRIVER_CONTROL_PLANE_IMAGE",
				bundle.NFSDriverImage:     "NFS_DRIVER_CONTROL_PLANE_IMAGE",
				bundle.LivenessProbeImage: "LIVENESS_PROBE_CONTROL_PLANE_IMAGE",
				bundle.ProvisionerImage:   "PROVISIONER_IMAGE", bundle.ResizerImage: "RESIZER_IMAGE",
				bundle.SnapshotterImage: "SNAPSHOTTER_IMAGE",
			},
			flavour.Guest: {
				bundle.Namespace: "operators", bundle.NodeNamespace: operandNamespace,
				bundle.ReleaseVersion:    "4.21",
				bundle.OperatorNamespace: "operators",
				bundle.DriverImage:       "DRIVER_IMAGE", bundle.NFSDriverImage: "NFS_DRIVER_IMAGE",
				bundle.LivenessProbeImage:       "LIVENESS_PROBE_IMAGE",
				bundle.NodeDriverRegistrarImage: "NODE_DRIVER_REGISTRAR_IMAGE",
			},
		},
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			o := newTestOperator(t, f, plugins()...)
			for _, values := range want {
				for name, value := range values {
					if strings.HasSuffix(name, "_IMAGE") {
						values[name] = "registry.example/" + strings.ToLower(value)
					}
				}
			}
			assert.Check(t, is.DeepEqual(want, placeholders(o.bundles, o.settings, o.namespaces)),
				"placeholders")
			o.settings.ReleaseVersion = ""
			for side, values := range placeholders(o.bundles, o.settings, o.namespaces) {
				if values[bundle.ReleaseVersion] != unknownRelease {
					t.Errorf("release of the %s side is %q where nobody says", side, values[bundle.ReleaseVersion])
				}
			}
		})
	}
}
