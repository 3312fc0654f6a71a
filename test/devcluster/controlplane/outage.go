package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/openstack/port"
)

const (
	pollInterval  = 20 * time.Millisecond
	answerTimeout = 10 * time.Second
)

// How is the way in which an API server is unavailable.
type How string

// The ways.
const (
	// Refuse ends the API server, so that connections are refused.
	Refuse How = "refuse"
	// Hang suspends the process of the API server, so that requests hang.
	Hang How = "hang"
)

// Ways lists the ways for help texts.
func Ways() string { return strings.Join([]string{string(Refuse), string(Hang)}, "|") }

type outage struct {
	how How
	// frozen is the process that hangs. port is the reserved port of a process that has ended.
	frozen int
	port   port.Reservation
}

// Suspend makes the API server unavailable. It also stops the other components, because they would
// mark all nodes as not ready.
func (c *ControlPlane) Suspend(ctx context.Context, how How) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outage != nil {
		return fmt.Errorf("the API server is away already (%s)", c.outage.how)
	}
	if how != Refuse && how != Hang {
		return fmt.Errorf("an API server cannot %q, only %s", how, Ways())
	}
	found := process.Find(c.opts.Dir, c.opts.binary("kube-apiserver"))
	if len(found) != 1 {
		return fmt.Errorf("found %d processes of kube-apiserver instead of one", len(found))
	}
	c.stopComponents()
	c.outage = &outage{how: how, frozen: found[0]}
	if how == Refuse {
		return c.refuse(ctx, found[0])
	}
	if err := syscall.Kill(found[0], syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freezing kube-apiserver: %w", err)
	}
	return nil
}

// refuse kills the API server. On SIGTERM it would wait for its clients.
func (c *ControlPlane) refuse(ctx context.Context, pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing kube-apiserver: %w", err)
	}
	// envtest can start the API server again only after it has noticed the end of the process.
	err := wait.PollUntilContextTimeout(ctx, pollInterval, stopTimeout, true,
		func(context.Context) (bool, error) {
			return c.plane.APIServer.Stop() == nil, nil
		})
	if err != nil {
		return fmt.Errorf("waiting for the end of kube-apiserver: %w", err)
	}
	serving := c.plane.APIServer.SecureServing
	c.outage.port, err = port.Reserve(net.JoinHostPort(serving.Address, serving.Port))
	return err
}

// Resume starts the API server again, on the same address and with the same data.
func (c *ControlPlane) Resume(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outage == nil {
		return errors.New("the API server is not away")
	}
	if err := c.outage.end(); err != nil {
		return err
	}
	if c.outage.how == Refuse {
		if err := c.restartAPIServer(); err != nil {
			return err
		}
	}
	err := wait.PollUntilContextTimeout(ctx, pollInterval, startTimeout, true,
		func(ctx context.Context) (bool, error) { return c.get(ctx, "/readyz") == nil, nil })
	if err != nil {
		return fmt.Errorf("waiting for kube-apiserver to answer: %w", err)
	}
	if err := c.removeNodeLeases(ctx); err != nil {
		return err
	}
	c.outage = nil
	return c.startWatched(ctx)
}

func (o *outage) end() error {
	if o.how == Refuse {
		return o.port.Release()
	}
	if err := syscall.Kill(o.frozen, syscall.SIGCONT); err != nil {
		return fmt.Errorf("thawing kube-apiserver: %w", err)
	}
	return nil
}

func (c *ControlPlane) restartAPIServer() error {
	log, err := process.OpenLog(c.opts.log("kube-apiserver"))
	if err != nil {
		return err
	}
	defer log.Close()
	c.plane.APIServer.Out, c.plane.APIServer.Err = log, log
	if err := c.plane.APIServer.Start(); err != nil {
		return c.startError(err)
	}
	return nil
}
