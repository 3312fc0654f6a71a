// Package node runs real nodes on this machine: each with a kubelet, a containerd and a kube-proxy
// in namespaces of its own, and with volumes as loop devices. Package cluster and tests call it.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/node/loop"
	"github.com/openstack-csi/csi-operator/test/node/supervisor"
)

const (
	pollInterval = 20 * time.Millisecond
	// bootTimeout bounds the time until the node has its namespaces, restartTimeout the time until a
	// service runs again, and stopTimeout the time until nothing of the node is left.
	bootTimeout    = time.Minute
	restartTimeout = time.Minute
	stopTimeout    = time.Minute
)

// Options describes a node.
type Options struct {
	// Number counts the nodes of a cluster from 1. Name is the name of the node.
	Number int
	Name   string
	// ProviderID is the ID of the node in the cloud: openstack:///ID of the server.
	ProviderID string
	// Dir is the folder of the node, and Logs the folder of its logs.
	Dir, Logs string
	// Programs is the folder that hack/node.sh filled. Supervisor is the program devnode.
	Programs, Supervisor string
	// Volumes is the folder below which the files of volumes are.
	Volumes string
	// Kubeconfig and ProxyKubeconfig are the kubeconfigs of the kubelet and of kube-proxy.
	Kubeconfig, ProxyKubeconfig []byte
	// ClientCA is the CA of the clients of the kubelet.
	ClientCA []byte
	// Images are tar files of images by name. Sandbox is the name of the pause image.
	Images  []string
	Sandbox string
	// Mounts are folders of this machine by their path in the node.
	Mounts map[string]string
}

// Node is a running node.
type Node struct {
	// Disks are the volumes that are attached to the node.
	*loop.Disks

	options Options
	network *Network
	config  supervisor.Config
	cmd     *exec.Cmd
	alive   io.Closer // the supervisor ends the node when this is closed
	log     string
	pid     int // of the first process of the node
	done    chan struct{}
}

// Start starts a node in the network. It does not wait until the node is registered. The node runs
// until Stop is called, or until this process ends.
func Start(ctx context.Context, network *Network, o Options) (*Node, error) {
	n := &Node{
		Disks: loop.NewDisks(""), options: o, network: network, config: configure(network, o),
		log: filepath.Join(o.Logs, o.Name+".log"),
	}
	if err := n.writeFiles(network); err != nil {
		return nil, err
	}
	if err := n.PowerOn(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

// configure returns the configuration of the supervisor.
func configure(network *Network, o Options) supervisor.Config {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(filepath.Dir(o.Dir))) // it returns no error
	return supervisor.Config{
		Name: o.Name, Dir: o.Dir, Programs: o.Programs, Volumes: o.Volumes, Logs: o.Logs,
		CGroup:    fmt.Sprintf("/csi-cluster-%08x/%s", hash.Sum32(), o.Name),
		Interface: "node" + strconv.Itoa(o.Number),
		Address:   network.address(o.Number) + "/24", Gateway: network.Machine(),
		Routes: network.routes(o.Number), Mounts: withImages(o), Images: imagePaths(o),
		Arguments: map[string][]string{
			supervisor.Containerd: {"--config=/etc/containerd/config.toml"},
			supervisor.Kubelet: {
				"--config=/etc/kubernetes/kubelet.yaml",
				"--kubeconfig=/etc/kubernetes/kubelet.kubeconfig",
				"--cert-dir=/var/lib/kubelet/pki",
				"--hostname-override=" + o.Name, "--node-ip=" + network.address(o.Number),
			},
			supervisor.KubeProxy: {
				"--config=/etc/kubernetes/kube-proxy.yaml", "--hostname-override=" + o.Name,
			},
		},
	}
}

const imagesPath = "/opt/images"

// withImages returns the mounts of the node, with the folders of its images.
func withImages(o Options) map[string]string {
	mounts := map[string]string{}
	for target, source := range o.Mounts {
		mounts[target] = source
	}
	for _, image := range o.Images {
		folder := filepath.Dir(image)
		mounts[filepath.Join(imagesPath, folder)] = folder
	}
	return mounts
}

func imagePaths(o Options) []string {
	var paths []string
	for _, image := range o.Images {
		paths = append(paths, filepath.Join(imagesPath, image))
	}
	return paths
}

// supervise starts the supervisor.
func (n *Node) supervise() error {
	content, err := json.MarshalIndent(n.config, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the configuration of node %s: %w", n.options.Name, err)
	}
	path := filepath.Join(n.options.Dir, "config.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing the configuration of node %s: %w", n.options.Name, err)
	}
	log, err := process.OpenLog(n.log)
	if err != nil {
		return err
	}
	defer log.Close()
	n.cmd = exec.Command(n.options.Supervisor, supervisor.Supervise, path)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.ExtraFiles = []*os.File{n.network.namespace}
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if n.alive, err = n.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("creating the pipe to the supervisor: %w", err)
	}
	if err := n.cmd.Start(); err != nil {
		return fmt.Errorf("starting the supervisor of node %s: %w", n.options.Name, err)
	}
	cmd, done := n.cmd, make(chan struct{})
	n.done = done
	go func() {
		_ = cmd.Wait() // ProcessState contains the status
		close(done)
	}()
	return nil
}

// waitForBoot waits until the node has its namespaces and its /dev.
func (n *Node) waitForBoot(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, bootTimeout, true,
		func(context.Context) (bool, error) {
			select {
			case <-n.done:
				return false, errors.New("it ended")
			default:
			}
			content, err := os.ReadFile(n.config.PIDFile())
			if err != nil {
				return false, nil //nolint:nilerr // the supervisor has not written it yet
			}
			if n.pid, err = strconv.Atoi(string(content)); err != nil {
				return false, err
			}
			// The machine has no such folder, so the root folder is that of the node.
			_, err = os.Stat(n.path(supervisor.ProgramsPath))
			return err == nil, nil
		})
	if err != nil {
		return process.WithLog(fmt.Errorf("starting node %s: %w", n.options.Name, err), n.log)
	}
	return nil
}

// Name returns the name of the node.
func (n *Node) Name() string { return n.options.Name }

// Done is closed when the node has ended.
func (n *Node) Done() <-chan struct{} { return n.done }

// ExitError returns why the node has ended. Call it only after Done is closed.
func (n *Node) ExitError() error {
	return process.WithLog(fmt.Errorf("node %s ended: %s", n.options.Name, n.cmd.ProcessState), n.log)
}

// path returns the path of a file of the node for processes of the machine.
func (n *Node) path(file string) string {
	return filepath.Join("/proc", strconv.Itoa(n.pid), "root", file)
}

// Stop ends all processes of the node and waits until nothing is left. It may be called again.
func (n *Node) Stop() error {
	// An error means that the supervisor has ended.
	_ = n.alive.Close()
	select {
	case <-n.done:
	case <-time.After(stopTimeout):
		return fmt.Errorf("node %s did not stop within %v; its log is %s",
			n.options.Name, stopTimeout, n.log)
	}
	return n.Disks.Close()
}

// Restart kills a service of the node, such as supervisor.Kubelet, and waits until the node has
// started it again.
func (n *Node) Restart(ctx context.Context, service string) error {
	before, err := n.process(service)
	if err != nil {
		return err
	}
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing %s of node %s: %w", service, n.options.Name, err)
	}
	err = wait.PollUntilContextTimeout(ctx, pollInterval, restartTimeout, true,
		func(context.Context) (bool, error) {
			after, err := n.process(service)
			return err == nil && after != before, nil
		})
	if err != nil {
		return fmt.Errorf("waiting until node %s starts %s again: %w", n.options.Name, service, err)
	}
	return nil
}

// process returns the process ID of a service, as the machine sees it.
func (n *Node) process(service string) (int, error) {
	// Each thread of the first process has children of its own.
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", n.pid))
	if err != nil {
		return 0, err
	}
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for child := range strings.FieldsSeq(string(children)) {
			program, err := os.Readlink(filepath.Join("/proc", child, "exe"))
			if err == nil && filepath.Base(program) == service {
				return strconv.Atoi(child)
			}
		}
	}
	return 0, fmt.Errorf("service %s of node %s does not run", service, n.options.Name)
}
