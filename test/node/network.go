package node

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/openstack-csi/csi-operator/test/node/supervisor"
)

const (
	// clusters is the number of clusters that a machine can have at the same time.
	clusters = 100
	// firstNetwork is the second number of the addresses of the first cluster, 10.100.0.0/16.
	firstNetwork = 100
	// interfacePrefix is the name of the machine's interface, without the number of the cluster.
	interfacePrefix = "csi-cluster"
	// firstNode is the last number of the address of the first node.
	firstNode = 11
	// registryPort is the port of a registry on the machine.
	registryPort = "5000"
)

// Network connects the machine and the nodes of one cluster. Its switch is in a network namespace
// that this process keeps open: if the process ends, the kernel removes the network.
//
// Cluster 0 has the addresses 10.100.0.0/16: the machine 10.100.0.1, node 1 10.100.0.11, and the
// pods of node 1 10.100.1.0/24.
type Network struct {
	number    int
	nodes     int
	namespace *os.File
	connected bool // the machine's interface exists
}

// NewNetwork creates a network with routes to the pods of the nodes.
func NewNetwork(nodes int) (*Network, error) {
	namespace, err := newNamespace()
	if err != nil {
		return nil, err
	}
	n := &Network{nodes: nodes, namespace: namespace}
	if err := n.connect(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// newNamespace creates a network namespace without a process.
func newNamespace() (*os.File, error) {
	var namespace *os.File
	err := inNamespace(nil, func() error {
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			namespace, err = os.Open("/proc/thread-self/ns/net")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("creating a network namespace: %w", err)
	}
	return namespace, nil
}

// inNamespace calls work on a thread in the network namespace, or if it is nil in the namespace of
// the machine. The thread ends afterwards, because its namespace differs from the others.
func inNamespace(namespace *os.File, work func() error) error {
	done := make(chan error)
	go func() {
		// A goroutine that ends locked ends its thread.
		runtime.LockOSThread()
		var err error
		if namespace != nil {
			err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
		}
		if err == nil {
			err = work()
		}
		done <- err
	}()
	return <-done
}

// connect creates the switch and the machine's interface. Its name reserves the addresses.
func (n *Network) connect() error {
	err := inNamespace(n.namespace, func() error {
		return ip("link add name switch type bridge", "link set switch up")
	})
	if err != nil {
		return fmt.Errorf("creating the switch: %w", err)
	}
	if err := n.reserve(); err != nil {
		return err
	}
	err = inNamespace(n.namespace, func() error {
		return ip("link set machine master switch up")
	})
	if err != nil {
		return fmt.Errorf("connecting the machine to the switch: %w", err)
	}
	commands := []string{
		fmt.Sprintf("address add %s/24 dev %s", n.Machine(), n.interfaceName()),
		fmt.Sprintf("link set %s up", n.interfaceName()),
	}
	for i := range n.nodes {
		commands = append(commands, fmt.Sprintf("route add %s via %s", n.pods(i+1), n.address(i+1)))
	}
	if err := ip(commands...); err != nil {
		return fmt.Errorf("setting the machine's address: %w", err)
	}
	return nil
}

// reserve creates the machine's interface with the first free number.
func (n *Network) reserve() error {
	errs := []error{errors.New("all addresses are in use")}
	for n.number = range clusters {
		free, err := n.isFree()
		if err != nil {
			return err
		}
		if !free {
			continue
		}
		err = ip(fmt.Sprintf("link add name %s type veth peer name machine netns /proc/%d/fd/%d",
			n.interfaceName(), os.Getpid(), n.namespace.Fd()))
		if err == nil {
			n.connected = true
			return nil
		}
		errs = append(errs, err) // another cluster may have taken the name
	}
	return fmt.Errorf("creating the machine's interface: %w", errors.Join(errs...))
}

// isFree returns whether the machine has no address in the networks of the cluster.
func (n *Network) isFree() (bool, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false, fmt.Errorf("listing the addresses of this machine: %w", err)
	}
	wanted, err := netip.MustParseAddr(n.Machine()).Prefix(16)
	if err != nil {
		return false, err
	}
	for _, address := range addresses {
		used, err := netip.ParsePrefix(address.String())
		if err != nil {
			return false, fmt.Errorf("reading an address of this machine: %w", err)
		}
		if wanted.Overlaps(used) {
			return false, nil
		}
	}
	return true, nil
}

// Machine returns the address of the machine.
func (n *Network) Machine() string { return fmt.Sprintf("10.%d.0.1", firstNetwork+n.number) }

// Registry is the address at which nodes expect a registry of images on the machine, without TLS.
func (n *Network) Registry() string { return net.JoinHostPort(n.Machine(), registryPort) }

// address returns the address of a node. Nodes are counted from 1.
func (n *Network) address(node int) string {
	return fmt.Sprintf("10.%d.0.%d", firstNetwork+n.number, firstNode-1+node)
}

func (n *Network) pods(node int) string {
	return fmt.Sprintf("10.%d.%d.0/24", firstNetwork+n.number, node)
}

// cluster returns the network of the machine, all nodes and all pods.
func (n *Network) cluster() string { return fmt.Sprintf("10.%d.0.0/16", firstNetwork+n.number) }

func (n *Network) interfaceName() string { return fmt.Sprintf("%s%d", interfacePrefix, n.number) }

// routes returns the addresses of all other nodes by the networks of their pods.
func (n *Network) routes(node int) map[string]string {
	routes := map[string]string{}
	for i := range n.nodes {
		if other := i + 1; other != node {
			routes[n.pods(other)] = n.address(other)
		}
	}
	return routes
}

// Close removes the network.
func (n *Network) Close() error {
	var err error
	if n.connected {
		// The kernel would remove the interface some time after the namespace.
		err = ip("link delete " + n.interfaceName())
	}
	return errors.Join(err, n.namespace.Close())
}

// ip runs commands of iproute2 in the network namespace of the thread.
func ip(commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(commands, "; "), err, bytes.TrimSpace(out))
	}
	return nil
}

// namespaceOf returns the network namespace of a process.
func namespaceOf(pid int) (*os.File, error) {
	return os.Open(filepath.Join("/proc", fmt.Sprint(pid), "ns", "net"))
}

// Metadata is the address at which a node serves its metadata.
const Metadata = supervisor.MetadataAddress + ":80"
