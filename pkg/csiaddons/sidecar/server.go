package sidecar

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// Limits of what clients may send and keep open. The sidecar checks the token of a call after it
// has read the request. So unauthenticated clients use 32 MiB of memory for requests, and 16 MiB
// for what they send ahead.
const (
	maxConnections = 16        // a controller needs one
	maxCalls       = 16        // at the same time, on one connection
	maxRequest     = 128 << 10 // bytes; a request with 1,024 CIDRs fits
	maxHeader      = 32 << 10  // bytes; tokens of ServiceAccounts have about 1 KiB
	// maxAhead is how many bytes of a call a client can send before the sidecar reads them. Without
	// it, gRPC raises this limit up to 16 MiB.
	maxAhead = 64 << 10

	connectTimeout = 10 * time.Second
	// minKeepalive is the shortest interval between two keepalive messages of a client.
	minKeepalive = 10 * time.Second
	// pingAfter and pingTimeout detect clients that do not answer any more.
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second
)

// stopTimeout is how long calls in flight may take when the sidecar ends. Kubelet ends the process
// 30 s after the signal by default.
const stopTimeout = 10 * time.Second

// newTLS adds a new certificate to a configuration, and returns its pin. The key exists only in
// this process. Clients check the pin, and not the names and times in the certificate.
func newTLS(flags *tls.Config) (*tls.Config, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("creating the key of the server: %w", err)
	}
	const years = 10
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "csi-addons-sidecar"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().AddDate(years, 0, 0),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, "", fmt.Errorf("creating the certificate of the server: %w", err)
	}
	certificate, err := x509.ParseCertificate(encoded)
	if err != nil {
		return nil, "", fmt.Errorf("reading the certificate of the server: %w", err)
	}
	config := flags.Clone()
	config.Certificates = []tls.Certificate{{Certificate: [][]byte{encoded}, PrivateKey: key}}
	return config, wire.Pin(certificate), nil
}

// newServer returns a server with the services that a controller calls, and the pin of its
// certificate; "" means that it serves without TLS. A service that the driver does not have answers
// UNIMPLEMENTED.
func (p *Program) newServer(described driver.Description, lead *election,
) (*grpc.Server, string, error) {
	transport, pin := insecure.NewCredentials(), ""
	checks := []grpc.UnaryServerInterceptor{p.Metrics.observe, p.Settings.limit, lead.check}
	if p.Settings.Access.Enabled {
		config, pinned, err := newTLS(p.Settings.TLS)
		if err != nil {
			return nil, "", err
		}
		transport, pin = attributed{credentials.NewTLS(config)}, pinned
		checks = slices.Insert(checks, 0, newAccess(p.Settings, p.Kube, p.Metrics).check)
	}
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxRequest), grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(maxCalls), grpc.StaticStreamWindowSize(maxAhead),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: minKeepalive, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WaitForHandlers(true), // the Lease is released after the last operation has ended
		grpc.Creds(transport), grpc.ChainUnaryInterceptor(checks...),
	)
	read := driver.Reader{Kube: p.Kube, Driver: described.Name}
	registerIdentity(server, p.Driver.Identity)
	spaces := &reclaimSpace{driver: p.Driver, reader: read, stagingPath: p.Settings.StagingPath}
	wire.Register(server, wire.ReclaimSpace,
		wire.ControllerReclaimSpace.By(spaces.controllerReclaimSpace),
		wire.NodeReclaimSpace.By(spaces.nodeReclaimSpace))
	fences := &networkFence{driver: p.Driver, reader: read}
	wire.Register(server, wire.NetworkFence, wire.FenceClusterNetwork.By(fences.fence),
		wire.UnFenceClusterNetwork.By(fences.unfence), wire.GetFenceClients.By(fences.clients))
	return server, pin, nil
}

// listen listens on a port of all addresses. If another process of the host network uses the port,
// it listens on a free port. The number of connections is limited.
func (p *Program) listen(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", fmt.Sprintf(":%d", p.Settings.Port))
	if errors.Is(err, syscall.EADDRINUSE) {
		listener, err = config.Listen(ctx, "tcp", ":0")
	}
	if err != nil {
		return nil, fmt.Errorf("listening on port %d (flag --controller-port): %w", p.Settings.Port, err)
	}
	return &limited{
		Listener: listener, everybody: !p.Settings.Access.Enabled, metric: p.Metrics.connections,
	}, nil
}

// stopGracefully finishes calls in flight, and cancels those that are left after stopTimeout.
func stopGracefully(server *grpc.Server) {
	timer := time.AfterFunc(stopTimeout, server.Stop)
	defer timer.Stop()
	server.GracefulStop()
}

// maxDeadline limits the deadline that a caller sets.
const maxDeadline = time.Hour

// limit is a gRPC interceptor that limits the duration of a call: by the deadline of the caller if
// it sets one, otherwise by the timeout.
func (s *Settings) limit(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	allowed := s.Timeout
	if _, ok := ctx.Deadline(); ok {
		allowed = max(allowed, maxDeadline)
	}
	ctx, cancel := context.WithTimeout(ctx, allowed)
	defer cancel()
	return handler(ctx, request)
}
