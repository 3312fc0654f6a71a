// Package sidecar is the program beside a driver that serves CSI-Addons to the controller. It
// publishes its address in a CSIAddonsNode, authenticates and authorizes each call, reads the
// objects that the call names, and calls the driver. cmd/csi-addons-sidecar runs it.
package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
)

// Program serves one driver in one pod.
type Program struct {
	Settings *Settings
	Driver   *driver.Client
	Kube     kubernetes.Interface
	// Dynamic writes the CSIAddonsNode.
	Dynamic dynamic.Interface
	Metrics *Metrics
}

// Run waits for the driver, and serves until ctx is done or an error occurs. It finishes calls in
// flight and then releases the Lease of the driver. After an error the process must end: if the pod
// loses the Lease, Run returns at once, and the end of the process ends what still runs.
func (p *Program) Run(ctx context.Context) error {
	if err := p.Driver.WaitReady(ctx); err != nil {
		return endOf(ctx, err)
	}
	described, err := p.Driver.Describe(ctx)
	if err != nil {
		return endOf(ctx, err)
	}
	lead, err := p.newElection(described)
	if err != nil {
		return err
	}
	server, pin, err := p.newServer(described, lead)
	if err != nil {
		return err
	}
	listener, err := p.listen(ctx)
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Serving the controller", "driver", described.Name,
		"address", listener.Addr().String(), "insecure", !p.Settings.Access.Enabled)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go newAnnouncer(p, described.Name, listener.Addr().(*net.TCPAddr), pin).run(ctx)
	leaseCtx, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	elected, ended := make(chan error, 1), make(chan error, 1)
	go func() { elected <- lead.run(leaseCtx) }()
	go func() { ended <- serve(ctx, server, listener) }()
	select {
	case err := <-elected:
		go server.Stop() // cancels operations, and waits for handlers that ignore it
		return err
	case err := <-ended:
		release()
		return errors.Join(err, <-elected)
	}
}

// endOf returns nil for an error that the end of ctx has caused.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// serve serves until ctx is done or an error occurs, and finishes the calls in flight.
func serve(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	defer stopGracefully(server)
	stop := context.AfterFunc(ctx, func() { stopGracefully(server) })
	defer stop()
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("serving the controller: %w", err)
	}
	return nil
}
