package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
)

// livenessProbe stands in for the liveness probe of CSI drivers: /healthz returns 200 if the driver
// answers the CSI call Probe that it is ready, and 500 otherwise.
type livenessProbe struct {
	driver   string        // the socket
	port     int           // for all addresses of the pod, if there is no endpoint
	endpoint string        // host:port
	timeout  time.Duration // for one probe
}

func (p *livenessProbe) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&p.driver, "csi-address", "/run/csi/socket", "Socket of the driver.")
	flags.IntVar(&p.port, "health-port", 9808, "Port of /healthz, without --http-endpoint.")
	flags.StringVar(&p.endpoint, "http-endpoint", "", "Address of /healthz, as host:port.")
	flags.DurationVar(&p.timeout, "probe-timeout", time.Second, "Bound of one probe.")
}

func (p *livenessProbe) Run(ctx context.Context) error {
	address := cmp.Or(p.endpoint, net.JoinHostPort("", strconv.Itoa(p.port)))
	return serveHealth(ctx, address, p.probe)
}

// probe uses a new connection, so that a connection that hangs never outlives the probe.
func (p *livenessProbe) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	conn, err := dial(p.driver)
	if err != nil {
		return err
	}
	defer conn.Close()
	response, err := csi.NewIdentityClient(conn).Probe(ctx, &csi.ProbeRequest{},
		grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("probing the driver at %s: %w", p.driver, err)
	}
	// A driver that does not say whether it is ready is ready.
	if ready := response.GetReady(); ready != nil && !ready.GetValue() {
		return errors.New("the driver is not ready")
	}
	return nil
}
