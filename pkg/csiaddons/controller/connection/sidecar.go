package connection

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// Limits of a connection.
const (
	maxResponse = 1 << 20 // bytes
	maxHeaders  = 32 << 10
	// dialTimeout limits the wait for an answer of the host, connectTimeout also the TLS handshake.
	dialTimeout    = 3 * time.Second
	connectTimeout = 5 * time.Second
	// bufferSize is that of the read buffer and of the write buffer. Messages are small, and there
	// are many connections.
	bufferSize = 4 << 10
	// restoreTimeout limits the time in which a connection counts as up although it was dropped.
	// restoreInterval and restoreBurst limit how often this happens to one connection.
	restoreTimeout  = 5 * time.Second
	restoreInterval = 10 * time.Second
	restoreBurst    = 3
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
	Security settings.Security
	// Pin identifies the key of the sidecar, if Security is Pinned.
	Pin string
}

// audience returns the audience of tokens for the sidecar.
func (t Target) audience() string {
	if t.Security == settings.Pinned {
		return wire.Audience(t.PodUID)
	}
	return ""
}

// Sidecar is a connection to a sidecar.
type Sidecar struct {
	Target

	connection   *grpc.ClientConn
	ReclaimSpace wire.ReclaimSpaceClient
	NetworkFence wire.NetworkFenceClient
	tokens       *Tokens
	// restores limits how often the connection is restored.
	restores *rate.Limiter

	mu           sync.Mutex
	capabilities []string // nil while the connection is down
}

// dial prepares a connection. It does not connect.
func dial(target Target, tokens *Tokens) (*Sidecar, error) {
	connection, err := grpc.NewClient("passthrough:///"+target.Address, options(target, tokens)...)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", target.Address, err)
	}
	return &Sidecar{
		Target: target, connection: connection, tokens: tokens,
		restores:     rate.NewLimiter(rate.Every(restoreInterval), restoreBurst),
		ReclaimSpace: wire.NewReclaimSpaceClient(connection),
		NetworkFence: wire.NewNetworkFenceClient(connection),
	}, nil
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
	case settings.Pinned:
		alive.Time, alive.PermitWithoutStream = keepaliveTime, true
		transport = credentials.NewTLS(wire.PinnedTLS(target.Pin))
	case settings.Unverified:
		transport = credentials.NewTLS(&tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // the administrator names the driver in a flag
		})
	case settings.Plaintext:
	}
	all := []grpc.DialOption{
		grpc.WithTransportCredentials(transport), grpc.WithKeepaliveParams(alive),
		grpc.WithIdleTimeout(0), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithContextDialer(dialHost), grpc.WithSharedWriteBuffer(true),
		grpc.WithReadBufferSize(bufferSize), grpc.WithWriteBufferSize(bufferSize),
		grpc.WithNoProxy(), grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)),
		grpc.WithConnectParams(grpc.ConnectParams{
			MinConnectTimeout: connectTimeout, Backoff: backoff.DefaultConfig,
		}),
	}
	if target.Security == settings.Plaintext {
		return all
	}
	return append(all,
		grpc.WithPerRPCCredentials(bearer{tokens: tokens, audience: target.audience()}),
		grpc.WithUnaryInterceptor(forgetRefused(tokens, target.audience())))
}

// forgetRefused drops a token that the sidecar refuses, so that the next call sends a new one.
func forgetRefused(tokens *Tokens, audience string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, request, reply, cc, opts...)
		if status.Code(err) == codes.Unauthenticated {
			tokens.Forget(audience)
		}
		return err
	}
}

// describe asks the sidecar for the capabilities of its driver. It returns an error if the sidecar
// serves another driver.
func (s *Sidecar) describe(ctx context.Context) ([]string, error) {
	client := identity.NewIdentityClient(s.connection)
	who, err := client.GetIdentity(ctx, &identity.GetIdentityRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking for the name of the driver: %w", err)
	}
	if who.GetName() != s.Driver {
		return nil, fmt.Errorf("the sidecar serves the driver %.63q instead of %s", who.GetName(),
			s.Driver)
	}
	answer, err := client.GetCapabilities(ctx, &identity.GetCapabilitiesRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking for the capabilities of the driver: %w", err)
	}
	return capabilitiesOf(answer), nil
}

// up marks the connection as up. It returns whether it was down.
func (s *Sidecar) up(capabilities []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	down := s.capabilities == nil
	s.capabilities = append([]string{}, capabilities...)
	return down
}

// Has returns whether the connection is up and the driver has all capabilities.
func (s *Sidecar) Has(capabilities ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, capability := range capabilities {
		if !slices.Contains(s.capabilities, capability) {
			return false
		}
	}
	return s.capabilities != nil
}

// lost marks the connection as down. It returns whether it was up.
func (s *Sidecar) lost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	up := s.capabilities != nil
	s.capabilities = nil
	return up
}

// confirm asks the sidecar for the capabilities of its driver over a new connection. It returns an
// error unless they are the same as before.
func (s *Sidecar) confirm(ctx context.Context) error {
	s.connection.Connect()
	capabilities, err := s.describe(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.capabilities == nil || !slices.Equal(s.capabilities, capabilities) {
		return errors.New("the driver has other capabilities")
	}
	return nil
}

// watch calls dropped each time that the connection is not ready any more, until it is closed.
func (s *Sidecar) watch(ctx context.Context, dropped func()) {
	for state := s.connection.GetState(); state != connectivity.Shutdown; {
		if !s.connection.WaitForStateChange(ctx, state) {
			return
		}
		wasReady := state == connectivity.Ready
		state = s.connection.GetState()
		for wasReady && state != connectivity.Shutdown {
			dropped()
			state = s.connection.GetState()
			// A restored connection may be dropped again before dropped returns.
			wasReady = state != connectivity.Ready && s.Has()
		}
	}
}

// close ends the connection. Calls in flight end with CANCELED.
func (s *Sidecar) close() {
	_ = s.connection.Close() // fails only if it is closed already
	if s.Security == settings.Pinned {
		s.tokens.Forget(s.audience())
	}
}
