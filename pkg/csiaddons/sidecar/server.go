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
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/callers"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// Limits of what a client may send and keep open before its token is checked. A request with
// maxCIDRs fits into maxRequest.
const (
	maxRequest = 128 << 10 // bytes
	maxHeader  = 32 << 10  // bytes; a token has at most maxToken
	maxCalls   = 16        // at the same time, on one connection
	// maxStrangers and maxOfNetwork limit the connections of clients that have sent no accepted token
	// yet, and maxKnown those of the others, of which a controller needs one.
	maxStrangers = 64
	maxOfNetwork = 16
	maxKnown     = 64
	// strangerTime, strangerBytes and strangerCalls limit the connection of a client that has sent no
	// accepted token yet. A controller calls as soon as it is connected. So all strangers together
	// have at most 16 MiB of requests in memory.
	strangerTime  = 30 * time.Second
	strangerBytes = 2 * maxRequest
	strangerCalls = maxCalls

	connectTimeout = 10 * time.Second
	// minKeepalive is the shortest interval between two keepalive messages of a client.
	minKeepalive = 10 * time.Second
	// pingAfter and pingTimeout detect clients that do not answer any more. Other connections stay
	// open: a controller might be unable to connect again while strangers share its address.
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
	access, transport := open, insecure.NewCredentials()
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxRequest), grpc.MaxHeaderListSize(maxHeader),
		grpc.MaxConcurrentStreams(maxCalls), grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: minKeepalive, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.WaitForHandlers(true), // the Lease is released after the last operation has ended
		grpc.StatsHandler(connections{s.Metrics.connections}),
	}
	if s.Settings.Access.Enabled {
		checked := newAccess(s.Settings, s.Kube)
		access, transport = checked.check, credentials.NewTLS(own.config)
		options = append(options, grpc.InTapHandle(s.Metrics.screened(checked.screen)))
	}
	checks := grpc.ChainUnaryInterceptor(s.Metrics.observe, deadline(s.Settings.Timeout).limit,
		access, lead.check)
	server := grpc.NewServer(append(options, grpc.Creds(identifying{transport}), checks)...)
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
	return callers.Limit(listener, callers.Connections{
		Strangers: maxStrangers, OfNetwork: maxOfNetwork, Known: maxKnown,
		Time: strangerTime, Bytes: strangerBytes,
	}), nil
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
