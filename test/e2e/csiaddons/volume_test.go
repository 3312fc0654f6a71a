//go:build e2e

package csiaddons

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

const mebibyte = 1 << 20

const (
	// fileSize is what a pod writes to a volume and deletes.
	fileSize = 200 * mebibyte
	// writeAndDelete writes a file of fileSize and deletes it.
	writeAndDelete = "dd if=/dev/urandom of=" + pods.DataPath + "/file bs=1M count=200 conv=fsync\n" +
		"rm " + pods.DataPath + "/file\nsync"
)

// volume is a volume that a pod uses.
type volume struct {
	x *test
	// pod is the name of the pod and of its claim, node the Node of the pod.
	pod, node string
	// id is the ID of the volume or share in the cloud, and name the PersistentVolume.
	id, name string
}

// mount creates a claim and a pod that uses it, and waits until the pod runs.
func (x *test) mount(
	name string, claim corev1.PersistentVolumeClaimSpec, pod corev1.PodSpec,
) *volume {
	x.T.Helper()
	x.Claim(name, claim)
	x.Create(name, pod)
	node := x.Running(name).Spec.NodeName
	v := x.volumeOf(name)
	v.pod, v.node = name, node
	return v
}

// volumeOf returns the volume of a claim that is bound.
func (x *test) volumeOf(claim string) *volume {
	x.T.Helper()
	v := &volume{x: x}
	found, err := x.Cluster.Client.CoreV1().PersistentVolumeClaims(pods.Namespace).
		Get(x.T.Context(), claim, metav1.GetOptions{})
	x.Must(err)
	v.name = found.Spec.VolumeName
	pv, err := x.Cluster.Client.CoreV1().PersistentVolumes().
		Get(x.T.Context(), v.name, metav1.GetOptions{})
	x.Must(err)
	v.id = pv.Spec.CSI.VolumeHandle
	return v
}

// run runs a script in the pod of the volume.
func (v *volume) run(script string) string {
	v.x.T.Helper()
	output, err := v.x.Exec(pods.Namespace, v.pod, "main", "sh", "-ec", script)
	v.x.Must(err)
	return output
}

// allocated returns how many bytes the volume takes in the cloud: those of its file.
func (v *volume) allocated() int64 {
	v.x.T.Helper()
	var info unix.Stat_t
	v.x.Must(unix.Stat(filepath.Join(v.x.volumes(), v.id), &info))
	return info.Blocks * 512
}

// writeAndDelete lets the pod write a file and delete it, and returns what the volume takes then.
func (v *volume) writeAndDelete() int64 {
	v.x.T.Helper()
	before := v.allocated()
	v.run(writeAndDelete)
	full := v.allocated()
	assert.Assert(v.x.T, full >= before+fileSize/2,
		"the volume takes %d bytes before and %d after %d were written", before, full, fileSize)
	return full
}

// exitCode returns the exit code of the program that failed, or -1.
func exitCode(err error) int {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}

// onNode returns a pod that runs on a node.
func onNode(node string, pod corev1.PodSpec) corev1.PodSpec {
	pod.NodeSelector = map[string]string{corev1.LabelHostname: node}
	return pod
}

// podOf returns the pod of a DaemonSet of a driver on a node.
func (x *test) podOf(ctx context.Context, namespace, daemonSet, node string) (string, error) {
	list, err := x.Cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "app=" + daemonSet, FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil {
		return "", err
	}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			return pod.Name, nil
		}
	}
	return "", fmt.Errorf("no pod of DaemonSet %s runs on node %s", daemonSet, node)
}
