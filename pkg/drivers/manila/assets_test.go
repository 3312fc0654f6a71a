package manila

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// podSpecs returns the driver's pods in a flavour: of the controller and of the nodes.
func podSpecs(t *testing.T, f flavour.Flavour) (controller, node corev1.PodSpec) {
	t.Helper()
	loaded, err := bundle.Load(Driver().Assets, f)
	if err != nil {
		t.Fatal(err)
	}
	var deployment appsv1.Deployment
	var daemonSet appsv1.DaemonSet
	for _, asset := range loaded.Assets() {
		switch asset.Role {
		case bundle.ControllerWorkload:
			err = yaml.Unmarshal(asset.Data, &deployment)
		case bundle.NodeWorkload:
			err = yaml.Unmarshal(asset.Data, &daemonSet)
		default:
		}
		if err != nil {
			t.Fatalf("decoding %s: %v", asset.Name, err)
		}
	}
	return deployment.Spec.Template.Spec, daemonSet.Spec.Template.Spec
}

// TestManifestsMountFilesOfPackage compares the paths in this package with the manifests of the
// operands.
func TestManifestsMountFilesOfPackage(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			controller, node := podSpecs(t, f)
			ofController := caConfigMap
			if f == flavour.HyperShift {
				ofController = sourceOf(f, nil).Name
			}
			for _, pod := range []struct {
				name, ca string
				spec     corev1.PodSpec
			}{{"controller", ofController, controller}, {"node", caConfigMap, node}} {
				want := map[string]string{
					mountedClouds:   "Secret " + credentialsSecret + " " + cloudsKey,
					mountedCA:       "Secret " + credentialsSecret + " " + caKey,
					mountedLegacyCA: "ConfigMap " + pod.ca + " " + caConfigMapKey,
				}
				got := driverFiles(pod.spec)
				for path, source := range want {
					if got[path] != source {
						t.Errorf("%s: %s is from %q, want %q", pod.name, path, got[path], source)
					}
				}
			}
		})
	}
}

// driverFiles returns the files in the driver's container, with the object and the key of each.
func driverFiles(pod corev1.PodSpec) map[string]string {
	files := map[string]string{}
	i := slices.IndexFunc(pod.Containers,
		func(c corev1.Container) bool { return c.Name == "csi-driver" })
	for _, mount := range pod.Containers[i].VolumeMounts {
		add := func(kind, name string, items []corev1.KeyToPath) {
			for _, item := range items {
				files[strings.TrimSuffix(mount.MountPath, "/")+"/"+item.Path] = kind + " " + name + " " +
					item.Key
			}
		}
		for _, volume := range pod.Volumes {
			if volume.Name != mount.Name {
				continue
			}
			if c := volume.ConfigMap; c != nil {
				add("ConfigMap", c.Name, c.Items)
			}
			if p := volume.Projected; p != nil {
				for _, source := range p.Sources {
					add("Secret", source.Secret.Name, source.Secret.Items)
				}
			}
		}
	}
	return files
}

func TestManifestsUseNamesOfPackage(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			loaded, err := bundle.Load(Driver().Assets, f)
			if err != nil {
				t.Fatal(err)
			}
			namespaces := []string{"", "${NAMESPACE}", "${NODE_NAMESPACE}", "${OPERATOR_NAMESPACE}"}
			seen := map[bundle.Role]bool{}
			for _, asset := range loaded.Assets() {
				var object unstructured.Unstructured
				if err := yaml.Unmarshal(asset.Data, &object.Object); err != nil {
					t.Fatalf("decoding %s: %v", asset.Name, err)
				}
				seen[asset.Role] = true
				namespace := object.GetNamespace()
				if !slices.Contains(namespaces, namespace) {
					t.Errorf("%s names the namespace %s itself", asset.Name, namespace)
				}
				if object.GetKind() == "Secret" {
					t.Errorf("%s is a Secret; that is the secret sync controller's", asset.Name)
				}
				switch asset.Role {
				case bundle.CSIDriver:
					if object.GetName() != string(Name) {
						t.Errorf("the CSIDriver is %s, want %s", object.GetName(), Name)
					}
				case bundle.SnapshotClass:
					checkSnapshotClass(t, object)
				default:
				}
			}
			if !seen[bundle.CSIDriver] || !seen[bundle.SnapshotClass] {
				t.Errorf("want a CSIDriver and a VolumeSnapshotClass, have %v", seen)
			}
		})
	}
}

func checkSnapshotClass(t *testing.T, object unstructured.Unstructured) {
	t.Helper()
	parameters, _, err := unstructured.NestedStringMap(object.Object, "parameters")
	if err != nil {
		t.Fatal(err)
	}
	const key = "csi.storage.k8s.io/snapshotter-secret-"
	if object.Object["driver"] != string(Name) || parameters[key+"name"] != loginSecret {
		t.Errorf("the VolumeSnapshotClass is of %v with Secret %s, want %s with %s",
			object.Object["driver"], parameters[key+"name"], Name, loginSecret)
	}
	namespace := strings.ReplaceAll(parameters[key+"namespace"], "${NODE_NAMESPACE}", Namespace)
	if namespace != Namespace {
		t.Errorf("the VolumeSnapshotClass's Secret is in %s, want %s", namespace, Namespace)
	}
}
