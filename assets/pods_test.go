package assets_test

import (
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

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
				if owner, taken := takenHostPorts()[port.ContainerPort]; taken {
					t.Errorf("port %d of %s belongs to: %s", port.ContainerPort, container.Name, owner)
				}
			}
		}
	})
}

// The pods comply with the Pod Security level "restricted" without defaults of an SCC.
func TestControllersAreRestricted(t *testing.T) {
	t.Parallel()
	eachPod(t, bundle.ControllerWorkload, func(t *testing.T, pod corev1.PodSpec) {
		s := ptr.Deref(pod.SecurityContext, corev1.PodSecurityContext{})
		if !ptr.Deref(s.RunAsNonRoot, false) || s.SeccompProfile == nil ||
			s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("pod: runAsNonRoot or the seccomp profile RuntimeDefault is missing: %v", s)
		}
		assert.Check(t, !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
			"pod: it uses namespaces of the host")
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
	if s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") ||
		len(s.Capabilities.Add) > 0 {
		t.Errorf("%s keeps capabilities: %v", container.Name, s.Capabilities)
	}
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
		assert.Check(t, !pod.HostPID && !pod.HostIPC,
			"the pod uses the process or IPC namespace of the node")
		listed := nodePrivileges(driver)
		addAddonsPrivileges(listed, driver, pod)
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			privilege, _, _ := strings.Cut(listed[container.Name], ":")
			assert.Check(t, is.Equal(nodePrivilege(container), privilege),
				"%s has the privilege", container.Name)
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
	if ptr.Deref(s.AllowPrivilegeEscalation, true) || s.Capabilities == nil ||
		!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		len(s.Capabilities.Add) > 0 || s.SeccompProfile == nil ||
		s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s may gain privileges, keeps capabilities or has no seccomp profile: %v",
			container.Name, s)
	}
	for _, mount := range container.VolumeMounts {
		assert.Check(t, mount.MountPropagation == nil,
			"%s propagates mounts at %s", container.Name, mount.MountPath)
	}
}
