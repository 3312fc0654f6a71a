// Package driver is the client of the services of the CSI-Addons specification, which a driver
// serves on its socket, and reads the PersistentVolumes and Secrets of their requests. The sidecar
// and the command csi-addons use it.
package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
)

const (
	// maxName is the maximum length of a driver's name in the specification.
	maxName = 63
	// maxMessage limits what a driver sends in one response, in bytes.
	maxMessage = 1 << 20
	// maxDelay is the longest time between two attempts to connect. The driver is on this machine.
	maxDelay = time.Second
	// probeInterval is the time between two probes of a driver that is not ready.
	probeInterval = time.Second
	probeTimeout  = 10 * time.Second
)

// Client calls a driver. It connects on demand, and again if the driver restarts.
type Client struct {
	connection             *grpc.ClientConn
	Identity               identity.IdentityClient
	ControllerReclaimSpace reclaimspace.ReclaimSpaceControllerClient
	NodeReclaimSpace       reclaimspace.ReclaimSpaceNodeClient
	Fence                  fence.FenceControllerClient
}

// New returns a client of the driver at an address: the path of a socket, also after unix://. It
// does not connect.
func New(address string) (*Client, error) {
	path := strings.TrimPrefix(address, "unix://")
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("the address of the driver is %q: it must be the absolute path of a "+
			"socket, such as /run/csi-addons/socket", address)
	}
	// The socket is in a volume of the pod, which only its containers reach.
	c, err := newClient("unix://" + path)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to the driver at %s: %w", path, err)
	}
	return c, nil
}

// NewInProcess returns a client of a server in this process.
func NewInProcess(server *grpc.Server) (*Client, error) {
	listener := bufconn.Listen(maxMessage)
	c, err := newClient("passthrough:in-process",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}))
	if err != nil {
		return nil, fmt.Errorf("preparing the connection in this process: %w", err)
	}
	go func() { _ = server.Serve(listener) }() // until the process ends
	return c, nil
}

func newClient(target string, more ...grpc.DialOption) (*Client, error) {
	connection, err := grpc.NewClient(target, append(more,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithUnaryInterceptor(cleanErrors),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: maxDelay / 10, Multiplier: backoff.DefaultConfig.Multiplier,
				Jitter: backoff.DefaultConfig.Jitter, MaxDelay: maxDelay,
			},
			MinConnectTimeout: maxDelay,
		}))...)
	if err != nil {
		return nil, err
	}
	return &Client{
		connection:             connection,
		Identity:               identity.NewIdentityClient(connection),
		ControllerReclaimSpace: reclaimspace.NewReclaimSpaceControllerClient(connection),
		NodeReclaimSpace:       reclaimspace.NewReclaimSpaceNodeClient(connection),
		Fence:                  fence.NewFenceControllerClient(connection),
	}, nil
}

// Connection returns the connection, for services that have no field.
func (c *Client) Connection() grpc.ClientConnInterface { return c.connection }

// Close closes the connection. Calls in flight fail.
func (c *Client) Close() error { return c.connection.Close() }

// Description is the name and the services of a driver.
type Description struct {
	// Name is the name of the CSI driver.
	Name string
	// Controller and Node are true if the driver serves that service in this pod.
	Controller, Node bool
}

// Describe returns the name and the services of the driver.
func (c *Client) Describe(ctx context.Context) (Description, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answer, err := c.Identity.GetIdentity(ctx, &identity.GetIdentityRequest{})
	if err != nil {
		return Description{}, fmt.Errorf("reading the identity of the driver: %w", err)
	}
	d := Description{Name: answer.GetName()}
	// Names of drivers may contain capital letters.
	if faults := validation.IsDNS1123Subdomain(strings.ToLower(d.Name)); len(faults) > 0 ||
		len(d.Name) > maxName {
		return Description{}, fmt.Errorf("%.64q is no name of a driver: it must have at most %d "+
			"letters, digits, dots and hyphens, such as cinder.csi.openstack.org", d.Name, maxName)
	}
	all, err := c.Identity.GetCapabilities(ctx, &identity.GetCapabilitiesRequest{})
	if err != nil {
		return Description{}, fmt.Errorf("reading the capabilities of driver %s: %w", d.Name, err)
	}
	for _, capability := range all.GetCapabilities() {
		switch capability.GetService().GetType() {
		case identity.Capability_Service_CONTROLLER_SERVICE:
			d.Controller = true
		case identity.Capability_Service_NODE_SERVICE:
			d.Node = true
		case identity.Capability_Service_UNKNOWN: // no service, or one of a later specification
		}
	}
	return d, nil
}

var errNotReady = errors.New("the driver is not ready")

// WaitReady probes the driver until it is ready. An error means that ctx is done.
func (c *Client) WaitReady(ctx context.Context) error {
	log, last := klog.FromContext(ctx), ""
	return wait.PollUntilContextCancel(ctx, probeInterval, true,
		func(ctx context.Context) (bool, error) {
			err := c.Probe(ctx)
			if err != nil && err.Error() != last {
				last = err.Error()
				log.Info("Waiting for the driver", "reason", last)
			}
			return err == nil, nil
		})
}

// Probe returns an error if the driver does not answer or is not ready. A driver is ready if its
// answer does not contain the field ready.
func (c *Client) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answer, err := c.Identity.Probe(ctx, &identity.ProbeRequest{})
	switch {
	case status.Code(err) == codes.FailedPrecondition:
		return fmt.Errorf("%w: %s", errNotReady, status.Convert(err).Message())
	case err != nil:
		return fmt.Errorf("probing the driver: %w", err)
	case answer.GetReady() != nil && !answer.GetReady().GetValue():
		return errNotReady
	}
	return nil
}

// maxText is the maximum length of an error message of a driver in bytes. The controller copies
// messages into objects.
const maxText = 1 << 10

// cleanErrors is a gRPC interceptor of the client. It limits the messages of errors, and removes
// characters that are not printable.
//
//nolint:revive // gRPC defines the arguments
func cleanErrors(ctx context.Context, method string, request, response any,
	connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	err := invoke(ctx, method, request, response, connection, options...)
	if err == nil {
		return nil
	}
	cleaned := status.Convert(err).Proto()
	cleaned.Message = clean(cleaned.GetMessage())
	return status.ErrorProto(cleaned)
}

// clean returns the text with spaces in place of characters that are not printable, cut to maxText.
func clean(text string) string {
	const end = "..."
	cut := len(text) > maxText
	if cut {
		text = text[:maxText-len(end)]
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if cut {
		text += end
	}
	return text
}
