package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// startTimeout bounds the start of containerd, for a busy machine.
	startTimeout = 2 * time.Minute
	// restartDelay is the time between the end of a service and its new start, as with systemd.
	restartDelay = time.Second
)

func environment() []string {
	return []string{
		"PATH=" + ProgramsPath + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root", "TMPDIR=/tmp",
	}
}

type node struct {
	config   Config
	services map[int]string // by process ID
	logs     map[string]*os.File
}

func newNode(config Config) *node {
	return &node{config: config, services: map[int]string{}, logs: map[string]*os.File{}}
}

// run prepares the namespaces and then runs the services until it is killed.
func (n *node) run() error {
	for _, prepare := range []func() error{n.openLogs, n.connect, n.enterRoot, n.startContainerd} {
		if err := prepare(); err != nil {
			return err
		}
	}
	for _, image := range n.config.Images {
		if err := n.importImage(image); err != nil {
			return err
		}
	}
	for _, service := range []string{Kubelet, KubeProxy} {
		if err := n.start(service); err != nil {
			return err
		}
	}
	return n.reap()
}

// openLogs opens the logs while the folders of the machine are visible.
func (n *node) openLogs() error {
	for _, service := range []string{Containerd, Kubelet, KubeProxy} {
		file, err := os.OpenFile(n.config.LogFile(service), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("opening the log of %s: %w", service, err)
		}
		n.logs[service] = file
	}
	return nil
}

// start starts a service without waiting for its end.
func (n *node) start(service string) error {
	if service == KubeProxy {
		if err := removeServices(); err != nil {
			return err
		}
	}
	args := append([]string{service}, n.config.Arguments[service]...)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	log := n.logs[service]
	p, err := os.StartProcess(filepath.Join(ProgramsPath, service), args, &os.ProcAttr{
		Env: environment(), Dir: "/", Files: []*os.File{null, log, log},
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", service, err)
	}
	n.services[p.Pid] = service
	return p.Release()
}

// removeServices removes the rules of an earlier kube-proxy. With nftables 1.0 a new kube-proxy
// does not restore rules that it believes to exist.
func removeServices() error {
	var commands strings.Builder
	for _, family := range []string{"ip", "ip6"} {
		// The first command makes the second succeed.
		fmt.Fprintf(&commands, "add table %[1]s kube-proxy\ndelete table %[1]s kube-proxy\n", family)
	}
	return command([]byte(commands.String()), nil, "nft", "-f", "-")
}

func (n *node) startContainerd() error {
	if err := n.start(Containerd); err != nil {
		return err
	}
	end := time.Now().Add(startTimeout)
	for {
		err := ctr("version")
		if err == nil || time.Now().After(end) {
			return err
		}
		<-time.After(100 * time.Millisecond)
	}
}

func (n *node) importImage(file string) error {
	return ctr("--namespace=k8s.io", "images", "import", file)
}

func ctr(args ...string) error {
	return command(nil, nil, filepath.Join(ProgramsPath, "ctr"), args...)
}

// command runs a program in the namespaces of the node, and returns its output with its error.
// The program has the open files.
func command(stdin []byte, files []*os.File, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdin, cmd.ExtraFiles = environment(), bytes.NewReader(stdin), files
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err,
			bytes.TrimSpace(out))
	}
	return nil
}

// reap waits for all processes of the node, as the first process must, and starts services again
// that have ended.
func (n *node) reap() error {
	// As the first process of its namespace, this one gets no signal that it does not handle, except
	// SIGKILL of the supervisor.
	signal.Ignore(syscall.SIGTERM)
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("waiting for the processes of the node: %w", err)
		}
		service, found := n.services[pid]
		if !found {
			continue
		}
		delete(n.services, pid)
		<-time.After(restartDelay)
		if err := n.start(service); err != nil {
			return err
		}
	}
}

// connect connects the node to the switch. The interface disappears with the node.
func (n *node) connect() error {
	c := n.config
	// An open file of the namespace would keep the switch after the end of the cluster.
	network := os.NewFile(SwitchFD, "switch")
	defer network.Close()
	files := []*os.File{network}
	switchPath := fmt.Sprintf("/proc/self/fd/%d", SwitchFD)
	batch := []string{
		"link set lo up",
		// The metadata service listens here. Pods reach it through the default route.
		"address add " + MetadataAddress + "/32 dev lo",
		fmt.Sprintf("link add name eth0 type veth peer name %s netns %s", c.Interface, switchPath),
		"address add " + c.Address + " dev eth0",
		"link set eth0 up",
		"route add default via " + c.Gateway,
	}
	for pods, address := range c.Routes {
		batch = append(batch, "route add "+pods+" via "+address)
	}
	if err := command([]byte(strings.Join(batch, "\n")), files, "ip", "-batch", "-"); err != nil {
		return fmt.Errorf("connecting the node: %w", err)
	}
	err := command(nil, files, "nsenter", "--net="+switchPath,
		"ip", "link", "set", c.Interface, "master", "switch", "up")
	if err != nil {
		return fmt.Errorf("connecting the switch: %w", err)
	}
	return nil
}
