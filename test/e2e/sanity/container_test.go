//go:build integration

package sanity

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/devcluster/kubeletvolumes"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
)

// kubeletFolder is the folder of a kubelet. Pods of drivers share it with the node.
const kubeletFolder = "/var/lib/kubelet"

// runContainer runs the program of a container until the test ends. The files of the container are
// those of this machine, with the volumes of the pod. It waits until the program serves CSI, and
// returns the path of its socket in the node.
func (s *site) runContainer(
	t *testing.T, pod *corev1.Pod, c corev1.Container, program string,
) string {
	t.Helper()
	command := append(append([]string{}, c.Command...), c.Args...)
	if len(c.Command) == 0 && (len(c.Args) == 0 || strings.HasPrefix(c.Args[0], "-")) {
		// The image has an entrypoint.
		command = append([]string{"/bin/" + filepath.Base(program)}, command...)
	}
	env, expand := s.environment(t, pod, c)
	for i := range command {
		command[i] = expand.Replace(command[i])
	}
	name := owner(pod) + "-" + c.Name
	root := s.newRoot(t, name)
	bindFile(t, program, filepath.Join(root, command[0]))
	for _, mount := range c.VolumeMounts {
		s.mountVolume(t, pod, mount, root)
	}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env, cmd.Dir = env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	log := filepath.Join(s.dir, "logs", name+".log")
	out, err := process.OpenLog(log)
	assert.NilError(t, err)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting container %s of %s: %v", c.Name, pod.Name, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the test kills it
		close(ended)
	}()
	t.Cleanup(func() {
		<-ended
		_ = out.Close() // nothing writes any more
		if t.Failed() {
			t.Log(process.WithLog(fmt.Errorf("the program of %s ended", name), log))
		}
	})
	return s.waitForSocket(t, pod, c, command)
}

// waitForSocket waits until the socket exists that the argument --endpoint names.
func (s *site) waitForSocket(
	t *testing.T, pod *corev1.Pod, c corev1.Container, command []string,
) string {
	t.Helper()
	var endpoint string
	for _, argument := range command {
		if value, found := strings.CutPrefix(argument, "--endpoint="); found {
			endpoint = "/" + strings.TrimLeft(strings.TrimPrefix(value, "unix:"), "/")
		}
	}
	for _, m := range c.VolumeMounts {
		file, inVolume := strings.CutPrefix(endpoint, m.MountPath+"/")
		if !inVolume {
			continue
		}
		socket := filepath.Join(s.folderOf(t, pod, m.Name), file)
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, readyTimeout, true,
			func(context.Context) (bool, error) {
				_, err := os.Stat(filepath.Join(s.node, socket))
				return err == nil, nil
			})
		if err != nil {
			t.Fatalf("waiting for the socket of pod %s: %v", pod.Name, err)
		}
		return socket
	}
	t.Fatalf("no volume of pod %s contains the socket %q", pod.Name, endpoint)
	return ""
}

// environment returns the variables of a container, and what replaces references to them.
func (s *site) environment(
	t *testing.T, pod *corev1.Pod, c corev1.Container,
) ([]string, *strings.Replacer) {
	t.Helper()
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	var references []string
	for _, v := range c.Env {
		value := v.Value
		switch from := v.ValueFrom; {
		case from == nil:
		case from.FieldRef != nil && from.FieldRef.FieldPath == "spec.nodeName":
			value = pod.Spec.NodeName
		case from.ConfigMapKeyRef != nil:
			value = s.configMap(t, pod.Namespace, from.ConfigMapKeyRef.Name)[from.ConfigMapKeyRef.Key]
		default:
			t.Fatalf("variable %s of pod %s has an unknown source", v.Name, pod.Name)
		}
		env = append(env, v.Name+"="+value)
		references = append(references, "$("+v.Name+")", value)
	}
	return env, strings.NewReplacer(references...)
}

// newRoot returns a root folder that contains the files of this machine and the devices of the
// node. Changes of its files stay in memory.
func (s *site) newRoot(t *testing.T, name string) string {
	t.Helper()
	layers := filepath.Join(s.dir, "containers", name)
	root, upper, work := filepath.Join(layers, "root"), filepath.Join(layers, "upper"),
		filepath.Join(layers, "work")
	for _, folder := range []string{upper, work} {
		assert.NilError(t, os.MkdirAll(folder, 0o755))
	}
	mount(t, "overlay", root, 0,
		fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", upper, work))
	mount(t, "/proc", filepath.Join(root, "proc"), unix.MS_BIND|unix.MS_REC, "")
	mount(t, "/sys", filepath.Join(root, "sys"), unix.MS_BIND|unix.MS_REC, "")
	mount(t, filepath.Join(s.node, "dev"), filepath.Join(root, "dev"), unix.MS_BIND, "")
	return root
}

// folderOf returns the path of a volume of a pod in the node.
func (s *site) folderOf(t *testing.T, pod *corev1.Pod, volume string) string {
	t.Helper()
	source := sourceOf(pod, volume)
	switch {
	case source.HostPath != nil:
		return source.HostPath.Path
	case source.EmptyDir != nil, len(kubeletvolumes.Of(pod.Namespace, source, "")) > 0:
		// It is shorter than the path of the kubelet, because the path of a socket has at most 107
		// bytes.
		return filepath.Join(kubeletFolder, "pods", owner(pod), volume)
	}
	t.Fatalf("volume %s of pod %s has an unknown type", volume, pod.Name)
	return ""
}

func sourceOf(pod *corev1.Pod, volume string) corev1.VolumeSource {
	for _, v := range pod.Spec.Volumes {
		if v.Name == volume {
			return v.VolumeSource
		}
	}
	return corev1.VolumeSource{}
}

// mountVolume mounts a volume of a pod below the root folder of a container.
func (s *site) mountVolume(t *testing.T, pod *corev1.Pod, m corev1.VolumeMount, root string) {
	t.Helper()
	folder := s.folderOf(t, pod, m.Name)
	if !strings.HasPrefix(folder, "/sys/") { // the kernel is that of the machine
		folder = filepath.Join(s.node, folder)
	}
	volumes := kubeletvolumes.Of(pod.Namespace, sourceOf(pod, m.Name), folder)
	err := kubeletvolumes.Run(t.Context(), s.client, volumes, func(err error) { t.Error(err) })
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	assert.NilError(t, err)
	target := filepath.Join(root, m.MountPath)
	mount(t, folder, target, unix.MS_BIND|unix.MS_REC, "")
	if m.MountPropagation == nil || *m.MountPropagation != corev1.MountPropagationBidirectional {
		mount(t, "", target, unix.MS_REC|unix.MS_SLAVE, "")
	}
}

// mount mounts, and makes the folder on which it mounts. The source of a file system is its type;
// the kernel ignores the type of other mounts. The mount disappears with the namespace of
// the test.
func mount(t *testing.T, source, target string, flags uintptr, data string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(target, 0o755))
	assert.NilError(t, unix.Mount(source, target, source, flags, data),
		"mounting %s on %s", source, target)
}

// bindFile mounts a file over another, which it creates.
func bindFile(t *testing.T, source, target string) {
	t.Helper()
	assert.NilError(t, os.WriteFile(target, nil, 0o755))
	assert.NilError(t, unix.Mount(source, target, "", unix.MS_BIND, ""),
		"mounting %s on %s", source, target)
}
