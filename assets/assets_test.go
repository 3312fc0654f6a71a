// Package assets_test checks the generated assets of all drivers: Kubernetes knows every field, and
// the objects of existing clusters keep their names.
package assets_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// drivers returns the asset folders of all drivers.
func drivers(t *testing.T) map[string]fs.FS {
	t.Helper()
	manifests, err := filepath.Glob("drivers/*/driver.yaml")
	assert.Assert(t, err == nil && len(manifests) != 0, "no drivers: %v", err)
	found := map[string]fs.FS{}
	for _, manifest := range manifests {
		folder := filepath.Dir(manifest)
		found[filepath.Base(folder)] = os.DirFS(folder)
	}
	return found
}

// bundles returns the bundles of every driver in a flavour.
func bundles(t *testing.T, f flavour.Flavour) map[string]*bundle.Bundle {
	t.Helper()
	all := map[string]*bundle.Bundle{}
	for driver, fsys := range drivers(t) {
		if _, err := fs.Stat(fsys, bundle.Folder(f)); errors.Is(err, fs.ErrNotExist) {
			continue // not a flavour of this driver
		}
		loaded, err := bundle.Load(fsys, f)
		assert.NilError(t, err, driver)
		all[driver] = loaded
	}
	return all
}

// withCSIAddons returns the assets of a driver while CSI-Addons is active, or nil if the driver has
// none for it.
func withCSIAddons(
	t *testing.T, driver string, f flavour.Flavour, base *bundle.Bundle,
) *bundle.Bundle {
	t.Helper()
	addons, err := bundle.LoadCSIAddons(drivers(t)[driver], f)
	assert.NilError(t, err)
	if len(addons.Assets()) == 0 {
		return nil
	}
	all := slices.Clone(addons.Assets())
	for _, asset := range base.Assets() {
		if _, differs := addons.Find(asset.Name); !differs {
			all = append(all, asset)
		}
	}
	complete, err := bundle.New(all)
	assert.NilError(t, err)
	return complete
}

// eachBundle runs a test for each driver in each of its flavours, without and with CSI-Addons.
func eachBundle(
	t *testing.T, test func(t *testing.T, driver string, f flavour.Flavour, b *bundle.Bundle),
) {
	t.Helper()
	for _, f := range flavour.All() {
		for driver, loaded := range bundles(t, f) {
			t.Run(driver+"/"+string(f), func(t *testing.T) {
				t.Parallel()
				test(t, driver, f, loaded)
			})
			if complete := withCSIAddons(t, driver, f, loaded); complete != nil {
				t.Run(driver+"/"+string(f)+"/csi-addons", func(t *testing.T) {
					t.Parallel()
					test(t, driver, f, complete)
				})
			}
		}
	}
}

// filled returns the assets with a value for each early placeholder. The value would be a number
// without quotes.
func filled(t *testing.T, b *bundle.Bundle) []bundle.Asset {
	t.Helper()
	values := map[string]string{}
	for _, name := range bundle.Early() {
		values[name] = "4.20"
	}
	result, err := b.Fill(map[flavour.Side]map[string]string{
		flavour.ControlPlane: values, flavour.Guest: values,
	})
	assert.NilError(t, err)
	return result.Assets()
}

func decode(t *testing.T, text []byte) runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientscheme.AddToScheme, snapshotv1.AddToScheme,
	} {
		assert.NilError(t, add(scheme))
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	object, _, err := decoder.Decode(text, nil, nil)
	assert.NilError(t, err)
	return object
}

func TestEveryObjectDecodesStrictly(t *testing.T) {
	t.Parallel()
	eachBundle(t, func(t *testing.T, _ string, _ flavour.Flavour, b *bundle.Bundle) {
		for _, asset := range filled(t, b) {
			for _, name := range bundle.Placeholders(asset.Data) {
				assert.Check(t, slices.Contains(bundle.Late(), name), "%s: ${%s} remains", asset.Name, name)
			}
			if strings.HasSuffix(asset.Name, "servicemonitor.yaml") {
				assert.Check(t, is.Equal(kindOf(t, asset), "ServiceMonitor"), "%s: kind", asset.Name)
				continue
			}
			decode(t, asset.Data)
		}
	})
}

// The API server rejects a pod whose ServiceAccount may not use its SCC yet.
func TestServiceAccountsAndRBACComeFirst(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		for driver, b := range bundles(t, f) {
			var others string
			for _, asset := range b.Assets() {
				kind := kindOf(t, asset)
				first := kind == "ServiceAccount" || strings.Contains(kind, "Role")
				assert.Check(t, !first || others == "",
					"%s, %s: %s comes after %s", driver, f, asset.Name, others)
				if !first {
					others = asset.Name
				}
			}
		}
	}
}

func kindOf(t *testing.T, asset bundle.Asset) string {
	t.Helper()
	var object unstructured.Unstructured
	assert.NilError(t, yaml.Unmarshal(asset.Data, &object.Object))
	return object.GetKind()
}

// textOf returns the text of an asset.
func textOf(t *testing.T, b *bundle.Bundle, name string) []byte {
	t.Helper()
	assets := b.Assets()
	i := slices.IndexFunc(assets, func(a bundle.Asset) bool { return a.Name == name })
	assert.Assert(t, i >= 0, "the bundle contains no asset %s", name)
	return assets[i].Data
}

// workload reads the pod template of a bundle's workload, with its name, selector and annotations.
func workload(t *testing.T, b *bundle.Bundle, name string) (appsv1.DaemonSet, corev1.PodSpec) {
	t.Helper()
	var object appsv1.DaemonSet // a Deployment has the same fields
	assert.NilError(t, yaml.Unmarshal(textOf(t, b, name), &object))
	return object, object.Spec.Template.Spec
}

// Selectors are immutable, and a rename leaves the old object behind.
func TestNamesOfExistingClustersStay(t *testing.T) {
	t.Parallel()
	type workloadName struct {
		name     string
		selector map[string]string
	}
	component := func(name string) map[string]string {
		return map[string]string{"app": "openstack-manila-csi", "component": name}
	}
	ownName := func(name string) workloadName {
		return workloadName{name, map[string]string{"app": name}}
	}
	tests := map[string]map[string]workloadName{
		"cinder": {
			"controller.yaml": ownName("openstack-cinder-csi-driver-controller"),
			"node.yaml":       ownName("openstack-cinder-csi-driver-node"),
		},
		"manila": {
			"controller.yaml": {"openstack-manila-csi-controllerplugin", component("controllerplugin")},
			"node.yaml":       {"openstack-manila-csi-nodeplugin", component("nodeplugin")},
		},
		"nfs": {"node.yaml": {"csi-nodeplugin-nfsplugin", component("nfs-nodeplugin")}},
	}
	eachBundle(t, func(t *testing.T, driver string, _ flavour.Flavour, b *bundle.Bundle) {
		for file, want := range tests[driver] {
			object, _ := workload(t, b, file)
			if diff := cmp.Diff(want.selector, object.Spec.Selector.MatchLabels); diff != "" ||
				object.Name != want.name {
				t.Errorf("%s: name %q, selector %s", file, object.Name, diff)
			}
		}
	})
}

func TestPodsFollowTheConventions(t *testing.T) {
	t.Parallel()
	eachBundle(t, func(t *testing.T, _ string, _ flavour.Flavour, b *bundle.Bundle) {
		for _, asset := range b.Assets() {
			if asset.Role != bundle.ControllerWorkload && asset.Role != bundle.NodeWorkload {
				continue
			}
			object, pod := workload(t, b, asset.Name)
			for _, annotation := range []string{
				"config.openshift.io/inject-proxy", "config.openshift.io/inject-proxy-cabundle",
			} {
				if first, _, _ := strings.Cut(object.Annotations[annotation], ","); first != "csi-driver" {
					t.Errorf("%s: annotation %s is missing", asset.Name, annotation)
				}
			}
			checkVolumes(t, asset.Name, pod)
			for _, container := range append(pod.InitContainers, pod.Containers...) {
				checkContainer(t, asset.Name, container)
			}
			if asset.Role == bundle.NodeWorkload {
				checkNode(t, asset.Name, object, pod)
			}
		}
	})
}

func checkNode(t *testing.T, asset string, object appsv1.DaemonSet, pod corev1.PodSpec) {
	t.Helper()
	const eviction = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
	assert.Check(t, object.Spec.Template.Annotations[eviction] == "false",
		"%s: the autoscaler may evict it", asset)
	if pod.NodeSelector["kubernetes.io/os"] != "linux" || pod.Containers[0].LivenessProbe == nil {
		t.Errorf("%s: it is not bound to Linux, or has no liveness probe", asset)
	}
	for _, container := range pod.Containers {
		for _, arg := range container.Args {
			assert.Check(t, !strings.HasPrefix(arg, "--health-port") && !strings.Contains(arg, "0.0.0.0:"),
				"%s: %s of %s opens a port on every address of the host", asset, arg, container.Name)
		}
	}
}

// checkVolumes reports unused volumes: such a volume may name a Secret that does not exist.
func checkVolumes(t *testing.T, asset string, pod corev1.PodSpec) {
	t.Helper()
	mounted := map[string]bool{}
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		for _, mount := range container.VolumeMounts {
			mounted[mount.Name] = true
		}
	}
	for _, volume := range pod.Volumes {
		assert.Check(t, mounted[volume.Name], "%s: nothing mounts volume %s", asset, volume.Name)
		delete(mounted, volume.Name)
	}
	assert.Check(t, len(mounted) == 0, "%s: mounts without a volume: %v", asset, mounted)
}

func checkContainer(t *testing.T, asset string, container corev1.Container) {
	t.Helper()
	root := container.SecurityContext != nil &&
		container.SecurityContext.ReadOnlyRootFilesystem != nil &&
		*container.SecurityContext.ReadOnlyRootFilesystem
	_, memory := container.Resources.Requests[corev1.ResourceMemory]
	good := root && memory && container.ImagePullPolicy == corev1.PullIfNotPresent &&
		container.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError
	if !good {
		t.Errorf("%s: container %s lacks a read-only root, requests, pull or termination policy",
			asset, container.Name)
	}
	logs := slices.Contains(container.Args, "--v=${LOG_LEVEL}")
	needed := container.Args != nil && container.Image != "${KUBE_RBAC_PROXY_IMAGE}"
	assert.Check(t, !needed || logs, "%s: container %s ignores the log level", asset, container.Name)
	for _, arg := range container.Args {
		assert.Check(t, !strings.Contains(arg, "Topology="),
			"%s: container %s sets the Topology gate", asset, container.Name)
	}
}
