// Package supervisor runs one real node: a containerd, a kubelet and a kube-proxy in a network, a
// mount, a PID and a UTS namespace of their own. Only command devnode calls it.
//
// A node needs two processes. The supervisor runs on the machine. It starts the first process of
// the node, waits for its end, and then frees loop devices and removes control groups. The first
// process prepares the namespaces and runs the services. If it ends, the kernel ends all processes
// of the node, and removes its mounts and its network.
package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/openstack-csi/csi-operator/test/node/loop"
)

// The commands of devnode, each with the file of a Config.
const (
	// Supervise runs a node until standard input ends, because the parent has ended.
	Supervise = "supervise"
	// boot is the first process of a node.
	boot = "boot"
)

// SwitchFD is the file descriptor of the network namespace to which the node is connected.
const SwitchFD = 3

// Main runs the command and returns its exit code.
func Main(args []string, stdin io.Reader, stderr io.Writer) int {
	// The kernel sends the signal of the parent's death when the thread ends that started the child.
	runtime.LockOSThread()
	if err := run(args, stdin); err != nil {
		fmt.Fprintf(stderr, "devnode: %v\n", err)
		return 1
	}
	return 0
}

func run(args []string, stdin io.Reader) error {
	if len(args) != 2 || args[0] != Supervise && args[0] != boot {
		return fmt.Errorf("usage: devnode %s CONFIG", Supervise)
	}
	config, err := read(args[1])
	if err != nil {
		return err
	}
	if args[0] == boot {
		return newNode(config).run()
	}
	return supervise(config, args[1], stdin)
}

func read(path string) (Config, error) {
	var config Config
	content, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(content, &config)
	}
	if err != nil {
		return config, fmt.Errorf("reading the configuration: %w", err)
	}
	return config, nil
}

// supervise runs the node and returns when it has ended and nothing of it is left.
func supervise(config Config, path string, stdin io.Reader) (err error) {
	// Ctrl-C reaches the parent, which closes standard input when it wants the node to end.
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP)
	if err := removeGroups(config.CGroup); err != nil {
		return err
	}
	if err := createGroups(config.CGroup); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clean(config)) }()
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	cmd := exec.Command(program, boot, path)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(SwitchFD, "switch")}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWUTS,
		Pdeathsig: syscall.SIGKILL, Setsid: true,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the first process of the node: %w", err)
	}
	// An open file of the namespace would keep the network after the end of the parent.
	err = cmd.ExtraFiles[0].Close()
	if err == nil {
		err = writePID(config, cmd.Process.Pid)
	}
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), ignoreExit(cmd.Wait()))
	}
	stop := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, stdin)
		stop <- errors.Join(err, cmd.Process.Kill())
	}()
	err = cmd.Wait()
	select {
	case requested := <-stop:
		// Containers and images are only a cache. A node that has lost its power keeps them.
		return errors.Join(requested, os.RemoveAll(filepath.Join(config.Dir, "var/lib/containerd")))
	default:
		return fmt.Errorf("the node has ended: %w", err)
	}
}

// ignoreExit returns nil for the status of a killed process.
func ignoreExit(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil
	}
	return err
}

// writePID writes the process ID in the namespace of the machine to the file that the parent reads.
// The parent waits for the file, so it must not be empty.
func writePID(config Config, pid int) error {
	file := config.PIDFile()
	if err := os.WriteFile(file+".new", fmt.Append(nil, pid), 0o600); err != nil {
		return fmt.Errorf("writing the process ID of the node: %w", err)
	}
	return os.Rename(file+".new", file)
}

// clean removes what remains of a node without processes.
func clean(config Config) error {
	_, err := loop.FreeBelow(config.Volumes)
	return errors.Join(err, removeGroups(config.CGroup), os.RemoveAll(config.PIDFile()))
}

// Config describes a node.
type Config struct {
	// Name is the name of the node and of its host.
	Name string
	// Dir contains the files of the node. Its folders etc, var and tmp are those of the node.
	Dir string
	// Programs is the folder that hack/node.sh filled. The node has it at ProgramsPath.
	Programs string
	// CGroup is the control group of all pods, below the root of each hierarchy.
	CGroup string
	// Volumes is the folder of the files of volumes, whose loop devices are freed in the end.
	Volumes string
	// Interface is the name of the node's port in the switch. Address is the address of the node with
	// the length of its prefix, Gateway the address of the machine in the same network.
	Interface, Address, Gateway string
	// Routes are addresses of other nodes by the networks of their pods.
	Routes map[string]string
	// Mounts are folders of the machine by their path in the node.
	Mounts map[string]string
	// Images are tar files to import, as paths in the node.
	Images []string
	// Arguments are the arguments of each service.
	Arguments map[string][]string
	// Logs is the folder of the logs of the services.
	Logs string
}

// ProgramsPath is the folder of the node's programs in the node.
const ProgramsPath = "/opt/node"

// MetadataAddress is the address of the metadata service of OpenStack, which belongs to each node.
const MetadataAddress = "169.254.169.254"

// The services of a node, in the order of their start.
const (
	Containerd = "containerd"
	Kubelet    = "kubelet"
	KubeProxy  = "kube-proxy"
)

// PIDFile returns the file with the ID of the first process of the node, while the node runs.
func (c Config) PIDFile() string { return filepath.Join(c.Dir, "pid") }

// LogFile returns the log of a service.
func (c Config) LogFile(service string) string {
	return filepath.Join(c.Logs, c.Name+"-"+service+".log")
}
