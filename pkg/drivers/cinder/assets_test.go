package cinder

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// assetsOf returns the generated objects of a role in a flavour.
func assetsOf[T any](tb testing.TB, f flavour.Flavour, role bundle.Role) []T {
	tb.Helper()
	loaded, err := bundle.Load(Driver().Assets, f)
	assert.NilError(tb, err)
	var ret []T
	for _, asset := range loaded.Assets() {
		if asset.Role != role {
			continue
		}
		var object T
		if err := yaml.Unmarshal(asset.Data, &object); err != nil {
			tb.Fatalf("decoding %s: %v", asset.Name, err)
		}
		ret = append(ret, object)
	}
	return ret
}

func container(pod corev1.PodSpec) corev1.Container {
	i := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool {
		return c.Name == "csi-driver"
	})
	return pod.Containers[i]
}

// eachPod runs a test with the driver's pods of both flavours.
func eachPod(t *testing.T, test func(t *testing.T, pod corev1.PodSpec)) {
	t.Helper()
	for _, f := range flavour.All() {
		deployment := assetsOf[appsv1.Deployment](t, f, bundle.ControllerWorkload)[0]
		daemonSet := assetsOf[appsv1.DaemonSet](t, f, bundle.NodeWorkload)[0]
		for name, pod := range map[string]corev1.PodSpec{
			deployment.Name: deployment.Spec.Template.Spec, daemonSet.Name: daemonSet.Spec.Template.Spec,
		} {
			t.Run(string(f)+" "+name, func(t *testing.T) {
				t.Parallel()
				test(t, pod)
			})
		}
	}
}

// TestManifestsMountFilesOfCloudConf compares the paths in cloud.conf with the paths at which the
// manifests mount the files.
func TestManifestsMountFilesOfCloudConf(t *testing.T) {
	t.Parallel()
	eachPod(t, func(t *testing.T, pod corev1.PodSpec) {
		t.Helper()
		login := "Secret " + credentialsSecret + " " + openstack.CloudsKey
		if strings.Contains(strings.Join(container(pod).Args, " "), "--provide-controller-service=true") {
			login = "Secret " + loginSecret + " " + loginKey
		}
		want := keys{
			mountedClouds:                       login,
			mountedCA:                           "ConfigMap " + configMap + " " + bundleKey + " optional",
			"/etc/kubernetes/config/cloud.conf": "ConfigMap " + configMap + " " + configKey,
		}
		assert.Check(t, is.DeepEqual(want, files(pod)), "files of the driver")
	})
}

// files returns the files in the driver's container, with the object and the key of each.
func files(pod corev1.PodSpec) map[string]string {
	ret := keys{}
	for _, mount := range container(pod).VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		var source string
		var items []corev1.KeyToPath
		var optional *bool
		switch volume := pod.Volumes[i]; {
		case volume.Secret != nil:
			s := volume.Secret
			source, items, optional = "Secret "+s.SecretName, s.Items, s.Optional
		case volume.ConfigMap != nil:
			c := volume.ConfigMap
			source, items, optional = "ConfigMap "+c.Name, c.Items, c.Optional
		}
		for _, item := range items {
			path := strings.TrimSuffix(mount.MountPath, "/") + "/" + item.Path
			ret[path] = source + " " + item.Key
			if optional != nil && *optional {
				ret[path] += " optional"
			}
		}
	}
	return ret
}

// TestControllerAndNodesHaveSameTopologyFlag checks that controller and nodes have the same flag,
// and that the provisioner has no feature gate.
func TestControllerAndNodesHaveSameTopologyFlag(t *testing.T) {
	t.Parallel()
	eachPod(t, func(t *testing.T, pod corev1.PodSpec) {
		t.Helper()
		driver := container(pod)
		if !slices.Contains(driver.Args, "--with-topology=$(ENABLE_TOPOLOGY)") ||
			!slices.Contains(driver.Args, "--cloud-config=$(CLOUD_CONFIG)") {
			t.Errorf("the driver's arguments are %v", driver.Args)
		}
		values := keys{}
		for _, variable := range driver.Env {
			values[variable.Name] = variable.Value
			if from := variable.ValueFrom; from != nil && from.ConfigMapKeyRef != nil {
				values[variable.Name] = from.ConfigMapKeyRef.Name + " " + from.ConfigMapKeyRef.Key
			}
		}
		want := keys{
			"CSI_ENDPOINT": values["CSI_ENDPOINT"], "CLOUD_CONFIG": "/etc/kubernetes/config/cloud.conf",
			"ENABLE_TOPOLOGY": configMap + " " + topologyKey,
		}
		assert.Check(t, is.DeepEqual(want, values), "the driver's environment")
		for _, c := range pod.Containers {
			gates := func(arg string) bool { return strings.HasPrefix(arg, "--feature-gates") }
			assert.Check(t, !slices.ContainsFunc(c.Args, gates),
				"container %s has a feature gate: %v", c.Name, c.Args)
		}
	})
}

func TestManifestsUseNamesOfPackage(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			drivers := assetsOf[storagev1.CSIDriver](t, f, bundle.CSIDriver)
			assert.Check(t, len(drivers) == 1 && drivers[0].Name == string(Name),
				"the CSIDrivers are %v, want %s", drivers, Name)
			classes := assetsOf[storagev1.StorageClass](t, f, bundle.StorageClass)
			assert.Check(t, len(classes) == 1 && classes[0].Provisioner == string(Name),
				"the StorageClasses are %v, want one of %s", classes, Name)
			snapshots := assetsOf[map[string]any](t, f, bundle.SnapshotClass)
			assert.Check(t, len(snapshots) == 1 && snapshots[0]["driver"] == string(Name),
				"the VolumeSnapshotClasses are %v, want one of %s", snapshots, Name)
			for _, content := range assetsOf[map[string]any](t, f, bundle.Static) {
				object := unstructured.Unstructured{Object: content}
				namespace := object.GetNamespace()
				if !slices.Contains([]string{"", "${NAMESPACE}", "${NODE_NAMESPACE}"}, namespace) {
					t.Errorf("%s %s names the namespace %s itself", object.GetKind(), object.GetName(), namespace)
				}
				if object.GetName() == configMap || object.GetKind() == "Secret" {
					t.Errorf("%s %s is an asset; that is a controller's", object.GetKind(), object.GetName())
				}
			}
		})
	}
}
