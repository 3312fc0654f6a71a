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
	"math/big"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/csi-addons/spec/lib/go/identity"
	"golang.org/x/net/netutil"
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
	maxRequest     = 128 << 10 // bytes; a request with maxCIDRs fits
	maxHeader      = 32 << 10  // bytes; a token has at most maxToken
	// maxAhead is how many bytes of a call a client can send before the sidecar reads them. Without
	// it, gRPC raises this limit up to 16 MiB.
	maxAhead = 64 << 10

	connectTimeout = 10 * time.Second
	// tokenTimeout is how long a client can stay connected before the sidecar accepts a token of it.
	tokenTimeout = 30 * time.Second
	// minKeepalive is the shortest interval between two keepalive messages of a client.
	minKeepalive = 10 * time.Second
	// pingAfter and pingTimeout detect clients that do not answer any more.
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second
)

// stopTimeout is how long calls in flight may take when the sidecar ends. Kubelet ends the process
// 30 s after the signal by default.
const stopTimeout = 10 * time.Second

// serving is the certificate of the server, with its key.
type serving struct {
	config *tls.Config
	pin    string
}

// newServing creates a certificate. Its key exists only in this process. Clients check the pin, and
// not the names and times in the certificate.
func newServing(limits TLS) (*serving, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("creating the key of the server: %w", err)
	}
	const years = 10
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "csi-addons-sidecar"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(years, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("creating the certificate of the server: %w", err)
	}
	certificate, err := x509.ParseCertificate(encoded)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the server: %w", err)
	}
	return &serving{
		config: &tls.Config{
			MinVersion: max(limits.MinVersion, tls.VersionTLS12), CipherSuites: limits.CipherSuites,
			CurvePreferences: limits.Curves,
			Certificates:     []tls.Certificate{{Certificate: [][]byte{encoded}, PrivateKey: key}},
		},
		pin: wire.Pin(certificate),
	}, nil
}

// newServer returns a server with the services that a controller calls. A service that the driver
// does not have answers UNIMPLEMENTED.
func (s *Sidecar) newServer(described driver.Description, own *serving, lead *election,
) *grpc.Server {
	transport, limit := insecure.NewCredentials(), deadline(s.Settings.Timeout).limit
	checks := []grpc.UnaryServerInterceptor{s.Metrics.observe, limit, open, lead.check}
	if s.Settings.Access.Enabled {
		access := newAccess(s.Settings, s.Kube, s.Metrics)
		transport = credentials.NewTLS(own.config)
		checks = []grpc.UnaryServerInterceptor{
			access.screen, s.Metrics.observe, limit, access.check, lead.check,
		}
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
		grpc.StatsHandler(connections{s.Metrics.connections}),
		grpc.Creds(temporary{transport}), grpc.ChainUnaryInterceptor(checks...),
	)
	read := driver.Reader{Kube: s.Kube, Driver: described.Name}
	identity.RegisterIdentityServer(server, &identityService{driver: s.Driver})
	wire.RegisterReclaimSpaceServer(server, &reclaimSpace{
		driver: s.Driver, reader: read, stagingPath: s.Settings.StagingPath,
	})
	wire.RegisterNetworkFenceServer(server, &networkFence{driver: s.Driver, reader: read})
	return server
}

// listen listens on a port of all addresses. If another process of the host network uses the port,
// it listens on a free port. The number of connections is limited.
func listen(ctx context.Context, port uint16) (net.Listener, error) {
	var config net.ListenConfig
	address := net.JoinHostPort("", strconv.FormatUint(uint64(port), 10))
	listener, err := config.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		listener, err = config.Listen(ctx, "tcp", net.JoinHostPort("", "0"))
	}
	if err != nil {
		return nil, fmt.Errorf("listening on port %d (flag --controller-port): %w", port, err)
	}
	return netutil.LimitListener(listener, maxConnections), nil
}

// endpoint returns the address to publish.
func endpoint(s *Settings, listener net.Listener) string {
	port := listener.Addr().(*net.TCPAddr).AddrPort().Port()
	if s.IP != "" {
		return net.JoinHostPort(s.IP, strconv.FormatUint(uint64(port), 10))
	}
	return wire.Endpoint{Pod: s.Pod.Name, Namespace: s.Pod.Namespace, Port: port}.String()
}

// stopGracefully finishes calls in flight, and cancels them after stopTimeout. No call is in flight
// when it returns.
func stopGracefully(server *grpc.Server) {
	timer := time.AfterFunc(stopTimeout, server.Stop)
	defer timer.Stop()
	server.GracefulStop()
}
