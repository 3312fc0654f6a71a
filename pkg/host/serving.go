package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/config/configdefaults"
	"github.com/openshift/library-go/pkg/crypto"
)

// selfSignedLifetime is that of the certificate which is served while there is none from the service CA.
const selfSignedLifetime = 365 * 24 * time.Hour

// serve listens for health checks and scrapes until ctx is done.
func serve(ctx context.Context, o Options, kube kubernetes.Interface) error {
	info := o.Operator.ServingInfo.DeepCopy()
	configdefaults.SetRecommendedHTTPServingInfoDefaults(info)
	server, err := newServer(ctx, o, info.ServingInfo, kube)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, info.BindNetwork, info.BindAddress)
	if err != nil {
		return fmt.Errorf("listening on %s (flag --listen, or servingInfo.bindAddress of the config): %w", info.BindAddress, err)
	}
	klog.FromContext(ctx).Info("Serving health and metrics", "address", listener.Addr().String())
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Serving health and metrics ended")
		}
	}()
	return nil
}

func newServer(ctx context.Context, o Options, info configv1.ServingInfo, kube kubernetes.Interface) (*http.Server, error) {
	config, err := tlsConfig(o.Name, info)
	if err != nil {
		return nil, err
	}
	metrics, err := protected(ctx, o, kube, legacyregistry.Handler())
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	healthz.InstallHandler(mux)
	healthz.InstallLivezHandler(mux)
	healthz.InstallReadyzHandler(mux)
	mux.Handle("/metrics", metrics)
	return &http.Server{
		Handler:           mux,
		TLSConfig:         config,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10, // tokens are no longer than 2 KiB
		// No HTTP/2: nothing here needs it, and it has been the way to exhaust such servers.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}, nil
}

// tlsConfig follows the cluster's TLS profile, which is in the servingInfo.
func tlsConfig(name string, info configv1.ServingInfo) (*tls.Config, error) {
	version, err := crypto.TLSVersion(info.MinTLSVersion)
	if err != nil {
		return nil, fmt.Errorf("servingInfo.minTLSVersion: %w", err)
	}
	config := &tls.Config{MinVersion: version, ClientAuth: tls.RequestClientCert}
	for _, suite := range info.CipherSuites {
		id, err := crypto.CipherSuite(suite)
		if err != nil {
			return nil, fmt.Errorf("servingInfo.cipherSuites: %w", err)
		}
		config.CipherSuites = append(config.CipherSuites, id)
	}
	// Made when it is asked for: that takes up to a second, and nobody asks where the service CA gives one.
	fallback := sync.OnceValues(func() (*tls.Certificate, error) { return selfSigned(name) })
	// Read at each handshake, which comes twice a minute: the files are rotated, and may come after the start.
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if certificate, err := tls.LoadX509KeyPair(info.CertFile, info.KeyFile); err == nil {
			return &certificate, nil
		}
		return fallback()
	}
	return config, nil
}

func selfSigned(name string) (*tls.Certificate, error) {
	authority, err := crypto.MakeSelfSignedCAConfig(name, selfSignedLifetime)
	if err != nil {
		return nil, fmt.Errorf("making a certificate to serve with: %w", err)
	}
	ca := &crypto.CA{Config: authority, SerialGenerator: &crypto.RandomSerialGenerator{}}
	server, err := ca.MakeServerCert(sets.New("localhost"), selfSignedLifetime)
	if err != nil {
		return nil, fmt.Errorf("making a certificate to serve with: %w", err)
	}
	cert, key, err := server.GetPEMBytes()
	if err != nil {
		return nil, fmt.Errorf("making a certificate to serve with: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	return &pair, err
}
