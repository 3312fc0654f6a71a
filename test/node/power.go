package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// PowerOn boots a node that has no power, and waits until it has its namespaces.
func (n *Node) PowerOn(ctx context.Context) error {
	if err := n.supervise(); err != nil {
		return err
	}
	if err := n.waitForBoot(ctx); err != nil {
		return errors.Join(err, n.Stop())
	}
	return n.Disks.PowerOn(n.path("/dev/disk/by-id"))
}

// CutPower ends the node like a loss of power. What the file systems of its volumes have not
// written yet is lost. The folder of the node stays, and the volumes stay attached, until PowerOn
// boots the node again. Close all listeners in the node before.
func (n *Node) CutPower() error {
	mounted, err := n.mounted()
	if err != nil {
		return err
	}
	if err := n.Disks.Abandon(mounted); err != nil {
		return err
	}
	if err := syscall.Kill(n.pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing node %s: %w", n.options.Name, err)
	}
	n.Disks.PowerOff()
	select {
	case <-n.done:
	case <-time.After(stopTimeout):
		return fmt.Errorf("node %s did not end within %v; its log is %s", n.options.Name, stopTimeout,
			n.log)
	}
	return n.waitUntilDisconnected()
}

// mounted returns a mount point of each device that is mounted in the node, as a path for processes
// of the machine, by the number of the device.
func (n *Node) mounted() (map[uint64]string, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", n.pid))
	if err != nil {
		return nil, fmt.Errorf("reading the mounts of node %s: %w", n.options.Name, err)
	}
	folders := map[uint64]string{}
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line) // see proc_pid_mountinfo(5)
		major, minor, _ := strings.Cut(fields[2], ":")
		first, noMajor := strconv.ParseUint(major, 10, 32)
		second, noMinor := strconv.ParseUint(minor, 10, 32)
		if err := errors.Join(noMajor, noMinor); err != nil {
			return nil, fmt.Errorf("reading the mounts of node %s: %w", n.options.Name, err)
		}
		folders[unix.Mkdev(uint32(first), uint32(second))] = n.path(fields[4])
	}
	return folders, nil
}

// waitUntilDisconnected waits until the interface of the node is gone: the kernel removes it some
// time after the processes.
func (n *Node) waitUntilDisconnected() error {
	err := wait.PollUntilContextTimeout(context.Background(), pollInterval, stopTimeout, true,
		func(context.Context) (bool, error) {
			connected := false
			err := inNamespace(n.network.namespace, func() error {
				interfaces, err := net.Interfaces()
				for _, i := range interfaces {
					connected = connected || i.Name == n.config.Interface
				}
				return err
			})
			return !connected, err
		})
	if err != nil {
		return fmt.Errorf("waiting until node %s has left the network: %w", n.options.Name, err)
	}
	return nil
}
