package connection

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// Limits of a connection.
const (
	maxResponse = 1 << 20   // bytes
	maxHeaders  = 128 << 10 // bytes; the detail of an error with 1,024 CIDRs fits
	// dialTimeout limits the wait for an answer of the host, connectTimeout also the TLS handshake.
	dialTimeout    = 3 * time.Second
	connectTimeout = 5 * time.Second
	// bufferSize is that of the read buffer and of the write buffer. Messages are small, and there
	// are many connections.
	bufferSize      = 4 << 10
	keepaliveTime   = 30 * time.Second
	keepaliveAnswer = 10 * time.Second
	// unknownKeepaliveTime is the shortest interval that every gRPC server accepts.
	unknownKeepaliveTime = 6 * time.Minute
)

// Target is a sidecar that the controller may call.
type Target struct {
	Driver, Node string
	Pod          types.NamespacedName
	PodUID       types.UID
	// Address is ip:port.
	Address  string
	Security Security
	// Pin identifies the key of the sidecar, if Security is Pinned.
	Pin string
}

// Sidecar is a connected sidecar. It never changes.
type Sidecar struct {
	Target

	// Capabilities are those of the driver, in the form of the status of a CSIAddonsNode.
	Capabilities []string
	// Connection is for the methods in package wire.
	Connection grpc.ClientConnInterface
}

// Has returns whether the driver has all capabilities.
func (s *Sidecar) Has(capabilities ...string) bool {
	return !slices.ContainsFunc(capabilities, func(one string) bool {
		return !slices.Contains(s.Capabilities, one)
	})
}

// dialHost connects to a host. A host that does not answer occupies the caller for a short time.
func dialHost(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	return dialer.DialContext(ctx, "tcp", address)
}

func options(target Target, tokens *Tokens) []grpc.DialOption {
	alive := keepalive.ClientParameters{Time: unknownKeepaliveTime, Timeout: keepaliveAnswer}
	transport := insecure.NewCredentials()
	switch target.Security {
	case Pinned:
		alive.Time, alive.PermitWithoutStream = keepaliveTime, true
		transport = credentials.NewTLS(wire.PinnedTLS(target.Pin))
	case Unverified:
		transport = credentials.NewTLS(&tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // the administrator names the driver in a flag
		})
	case Plaintext:
	}
	all := []grpc.DialOption{
		grpc.WithTransportCredentials(transport), grpc.WithKeepaliveParams(alive),
		grpc.WithIdleTimeout(0), grpc.WithContextDialer(dialHost), grpc.WithSharedWriteBuffer(true),
		grpc.WithReadBufferSize(bufferSize), grpc.WithWriteBufferSize(bufferSize),
		grpc.WithNoProxy(), grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: connectTimeout, Backoff: backoff.DefaultConfig,
		}),
	}
	if target.Security != Plaintext {
		own := &token{tokens: tokens, target: target}
		all = append(all, grpc.WithPerRPCCredentials(own),
			grpc.WithUnaryInterceptor(own.forgetRefused()))
	}
	return all
}

// describe reads the capabilities of the driver of a sidecar. It returns an error if the sidecar
// serves another driver.
func describe(ctx context.Context, connection *grpc.ClientConn, target Target) (*Sidecar, error) {
	client := identity.NewIdentityClient(connection)
	who, err := client.GetIdentity(ctx, &identity.GetIdentityRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking for the name of the driver: %w", err)
	}
	if who.GetName() != target.Driver {
		return nil, fmt.Errorf("the sidecar serves the driver %.63q instead of %s", who.GetName(),
			target.Driver)
	}
	answer, err := client.GetCapabilities(ctx, &identity.GetCapabilitiesRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking for the capabilities of the driver: %w", err)
	}
	return &Sidecar{target, capabilitiesOf(answer), connection}, nil
}

// Security says how the controller connects to the sidecars of a driver.
type Security int

// The levels of security.
const (
	// Pinned means TLS with the key that the sidecar publishes, and a token for one pod.
	Pinned Security = iota
	// Unverified means TLS with any key, and a token of a ServiceAccount without permissions for the
	// API server.
	Unverified
	// Plaintext means neither TLS nor a token.
	Plaintext
)

// Driver says what the controller accepts from a driver.
type Driver struct {
	// Namespaces are the namespaces of its pods.
	Namespaces []string
	Security   Security
}

// Drivers are the drivers that the controller serves, by name.
type Drivers map[string]Driver

// Allows returns whether pods of a driver may be in a namespace.
func (d Drivers) Allows(driver, namespace string) bool {
	return slices.Contains(d[driver].Namespaces, namespace)
}

// Namespaces returns the namespaces of all drivers, sorted.
func (d Drivers) Namespaces() []string {
	all := sets.New[string]()
	for _, driver := range d {
		all.Insert(driver.Namespaces...)
	}
	return sets.List(all)
}

// Capabilities that the controller uses, in the form of the status of a CSIAddonsNode.
const (
	ControllerService = "service.CONTROLLER_SERVICE"
	NodeService       = "service.NODE_SERVICE"
	ReclaimOffline    = "reclaim_space.OFFLINE"
	ReclaimOnline     = "reclaim_space.ONLINE"
	NetworkFence      = "network_fence.NETWORK_FENCE"
	GetFenceClients   = "network_fence.GET_CLIENTS_TO_FENCE"
)

// capabilitiesOf returns the names of capabilities, sorted and without repetitions. Names come from
// the specification, so that a driver cannot choose them.
func capabilitiesOf(response *identity.GetCapabilitiesResponse) []string {
	var names []string
	for _, capability := range response.GetCapabilities() {
		if name := capabilityOf(capability); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// capabilityOf returns the name of a capability, or "" if the specification does not contain it.
func capabilityOf(capability *identity.Capability) string {
	message := capability.ProtoReflect()
	kind := message.WhichOneof(message.Descriptor().Oneofs().ByName("type"))
	if kind == nil {
		return ""
	}
	chosen := message.Get(kind).Message()
	number := chosen.Descriptor().Fields().ByName("type")
	value := number.Enum().Values().ByNumber(chosen.Get(number).Enum())
	if value == nil {
		return ""
	}
	return string(kind.Name()) + "." + string(value.Name())
}
