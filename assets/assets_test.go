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

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
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
func withCSIAddons(t *testing.T, driver string, f flavour.Flavour, base *bundle.Bundle,
) *bundle.Bundle {
	t.Helper()
	addons, err := bundle.LoadCSIAddons(drivers(t)[driver], f)
	assert.NilError(t, err)
	if len(addons.Assets()) == 0 {
		return nil
	}
	all := addons.Assets()
	for _, asset := range base.Assets() {
		i := slices.IndexFunc(all, func(a bundle.Asset) bool { return a.Name == asset.Name })
		if i < 0 {
			all = append(all, asset)
			continue
		}
		switch asset.Role {
		case bundle.ControllerWorkload:
			all[i].Data, err = bundle.Patched(asset.Data, all[i].Data, appsv1.Deployment{})
		case bundle.NodeWorkload:
			all[i].Data, err = bundle.Patched(asset.Data, all[i].Data, appsv1.DaemonSet{})
		}
		assert.NilError(t, err)
	}
	return bundle.New(all)
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
				assert.Check(t, !first || others == "", "%s, %s: %s is after %s", driver, f, asset.Name, others)
				if !first {
					others = asset.Name
				}
			}
		}
	}
}

func kindOf(t *testing.T, asset bundle.Asset) string {
	t.Helper()
	return parse(t, asset.Data).GetKind()
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

func TestPodsFollowTheConventions(t *testing.T) {
	t.Parallel()
	eachBundle(t, func(t *testing.T, _ string, f flavour.Flavour, b *bundle.Bundle) {
		for _, asset := range b.Assets() {
			if asset.Role != bundle.ControllerWorkload && asset.Role != bundle.NodeWorkload {
				continue
			}
			object, pod := workload(t, b, asset.Name)
			for _, annotation := range []string{
				"config.openshift.io/inject-proxy", "config.openshift.io/inject-proxy-cabundle",
			} {
				first, _, _ := strings.Cut(object.Annotations[annotation], ",")
				assert.Check(t, is.Equal(first == "csi-driver", f.OpenShift()), "%s: annotation %s",
					asset.Name, annotation)
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
	assert.Check(t, is.Equal(object.Spec.Template.Annotations[eviction], "false"), asset)
	assert.Check(t, is.Equal(pod.NodeSelector["kubernetes.io/os"], "linux"), asset)
	assert.Check(t, pod.Containers[0].LivenessProbe != nil, asset)
	// The drivers find a config drive in /dev/disk; that of NFS needs none.
	sees := slices.ContainsFunc(pod.Containers[0].VolumeMounts,
		func(m corev1.VolumeMount) bool { return m.MountPath == "/dev" })
	assert.Check(t, sees || object.Name == "csi-nodeplugin-nfsplugin", "%s: no config drive", asset)
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
	assert.Check(t, good, "%s: %s: read-only root, requests, pull or termination policy", asset,
		container.Name)
	logs := slices.Contains(container.Args, "--v=${LOG_LEVEL}")
	needed := container.Args != nil && container.Image != "${KUBE_RBAC_PROXY_IMAGE}"
	assert.Check(t, !needed || logs, "%s: container %s ignores the log level", asset, container.Name)
	for _, arg := range container.Args {
		assert.Check(t, !strings.Contains(arg, "Topology="), "%s: %s", asset, container.Name)
	}
}

// eachPod runs a check for each workload with a role, of all drivers in all flavours.
func eachPod(t *testing.T, role bundle.Role, check func(t *testing.T, pod corev1.PodSpec)) {
	t.Helper()
	eachBundle(t, func(t *testing.T, _ string, _ flavour.Flavour, b *bundle.Bundle) {
		for _, asset := range b.Assets() {
			if asset.Role == role {
				_, pod := workload(t, b, asset.Name)
				check(t, pod)
			}
		}
	})
}

// takenHostPorts returns the ports that other components use on nodes of a cluster on OpenStack.
// 10302 and 10303 are free there: only drivers of AWS, Azure and Google Cloud use them.
func takenHostPorts() map[int32]string {
	return map[int32]string{
		6443: "kube-apiserver", 9001: "machine-config-daemon", 9100: "node-exporter",
		9101: "network operator", 9102: "ovn-kubernetes", 9103: "ovn-kubernetes", 9537: "crio",
		9637: "crio", 10010: "crio", 10248: "kubelet", 10250: "kubelet", 10251: "kube-scheduler",
		10255: "kubelet", 10256: "ovn-kubernetes", 10257: "kube-controller-manager",
		10258: "cloud-controller-manager", 10259: "kube-scheduler", 10260: "cloud-controller-manager",
		10263: "cloud-node-manager", 10306: "SMB CSI driver", 10308: "SMB CSI driver",
		10357: "cluster-policy-controller", 29101: "network operator", 29102: "ovn-kubernetes",
		29103: "ovn-kubernetes", 29652: "upstream NFS CSI driver", 29653: "upstream NFS CSI driver",
	}
}

// If two pods use one port of a node, one of them stays Pending.
func TestHostPortsAreFree(t *testing.T) {
	t.Parallel()
	eachPod(t, bundle.NodeWorkload, func(t *testing.T, pod corev1.PodSpec) {
		assert.Check(t, pod.HostNetwork, "the pod is not on the host's network: this test checks nothing")
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			for _, port := range container.Ports {
				owner := takenHostPorts()[port.ContainerPort]
				assert.Check(t, owner == "", "port %d belongs to: %s", port.ContainerPort, owner)
			}
		}
	})
}

// The pods comply with the Pod Security level "restricted" without defaults of an SCC.
func TestControllersAreRestricted(t *testing.T) {
	t.Parallel()
	eachPod(t, bundle.ControllerWorkload, func(t *testing.T, pod corev1.PodSpec) {
		s := ptr.Deref(pod.SecurityContext, corev1.PodSecurityContext{})
		assert.Check(t, ptr.Deref(s.RunAsNonRoot, false) && s.SeccompProfile != nil &&
			s.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
			"pod: runAsNonRoot or the seccomp profile RuntimeDefault is missing: %v", s)
		assert.Check(t, !pod.HostNetwork && !pod.HostPID && !pod.HostIPC, "namespaces of the host")
		for _, volume := range pod.Volumes {
			assert.Check(t, volume.HostPath == nil, "volume %s is a path of the host", volume.Name)
		}
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			checkRestricted(t, container)
		}
	})
}

func checkRestricted(t *testing.T, container corev1.Container) {
	t.Helper()
	s := ptr.Deref(container.SecurityContext, corev1.SecurityContext{})
	assert.Check(t, !ptr.Deref(s.Privileged, false) && !ptr.Deref(s.AllowPrivilegeEscalation, true),
		"%s may gain privileges", container.Name)
	assert.Check(t, s.Capabilities != nil && slices.Contains(s.Capabilities.Drop, "ALL") &&
		len(s.Capabilities.Add) == 0, "%s keeps capabilities: %v", container.Name, s.Capabilities)
	assert.Check(t, s.RunAsUser == nil && s.RunAsNonRoot == nil && s.SeccompProfile == nil,
		"%s overrides what is set for the pod: %v", container.Name, s)
}

// addAddonsPrivileges adds the containers of CSI-Addons, if the pod has them.
func addAddonsPrivileges(listed map[string]string, driver string, pod corev1.PodSpec) {
	isSidecar := func(c corev1.Container) bool { return c.Name == "csi-addons" }
	if !slices.ContainsFunc(pod.Containers, isSidecar) {
		return
	}
	if driver == "cinder" {
		listed["csi-addons"] = "spc_t: it uses a socket of a privileged container"
		listed["openstack-csi-addons"] = "privileged: it discards the unused blocks of file systems"
	}
}

// nodePrivileges lists what the containers of the DaemonSet of a driver may do. The others of a pod
// have none of these privileges.
func nodePrivileges(driver string) map[string]string {
	const (
		mounts     = "privileged: it mounts file systems in the mount namespace of the node"
		identifies = "privileged: it mounts the config drive to read the ID of the node"
		sockets    = "spc_t: it uses sockets in folders of the kubelet"
	)
	switch driver {
	case "manila":
		return map[string]string{
			"csi-driver": identifies, "csi-liveness-probe": sockets,
			"csi-node-driver-registrar": sockets, "wait-for-nfs-plugin": sockets,
		}
	case "nfs":
		return map[string]string{"csi-driver": mounts, "csi-liveness-probe": sockets}
	default:
		return map[string]string{
			"csi-driver": mounts, "csi-liveness-probe": sockets, "csi-node-driver-registrar": sockets,
		}
	}
}

func TestNodeContainersHaveOnlyListedPrivileges(t *testing.T) {
	t.Parallel()
	eachBundle(t, func(t *testing.T, driver string, _ flavour.Flavour, b *bundle.Bundle) {
		_, pod := workload(t, b, "node.yaml")
		assert.Check(t, !pod.HostPID && !pod.HostIPC, "namespaces of the node")
		listed := nodePrivileges(driver)
		addAddonsPrivileges(listed, driver, pod)
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			privilege, _, _ := strings.Cut(listed[container.Name], ":")
			assert.Check(t, is.Equal(nodePrivilege(container), privilege), container.Name)
			if privilege != "privileged" {
				checkUnprivileged(t, container)
			}
			delete(listed, container.Name)
		}
		assert.Check(t, len(listed) == 0, "there are no containers %v", listed)
	})
}

// nodePrivilege returns the privilege that gives a container access to the node.
func nodePrivilege(container corev1.Container) string {
	s := ptr.Deref(container.SecurityContext, corev1.SecurityContext{})
	if ptr.Deref(s.Privileged, false) {
		return "privileged"
	}
	return ptr.Deref(s.SELinuxOptions, corev1.SELinuxOptions{}).Type
}

// checkUnprivileged expects a container without capabilities and without access to devices. Only
// containers that mount may propagate mounts.
func checkUnprivileged(t *testing.T, container corev1.Container) {
	t.Helper()
	s := container.SecurityContext
	assert.Check(t, !ptr.Deref(s.AllowPrivilegeEscalation, true) && s.Capabilities != nil &&
		slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(s.Capabilities.Add) == 0 &&
		s.SeccompProfile != nil && s.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"%s may gain privileges, keeps capabilities or has no seccomp profile: %v", container.Name, s)
	for _, mount := range container.VolumeMounts {
		assert.Check(t, mount.MountPropagation == nil, "%s: %s", container.Name, mount.MountPath)
	}
}
