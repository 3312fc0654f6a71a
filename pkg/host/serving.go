package host

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/config/configdefaults"
	"github.com/openshift/library-go/pkg/crypto"
)

// serve serves health and metrics until ctx is done.
func serve(ctx context.Context, o Options) error {
	reviews := rest.CopyConfig(o.Served)
	// Clients with wrong tokens must not delay the review of another one. The API server limits them.
	reviews.QPS = -1
	kube, err := kubernetes.NewForConfig(reviews)
	if err != nil {
		return fmt.Errorf("creating client: %w", err)
	}
	info := o.Operator.ServingInfo.DeepCopy()
	configdefaults.SetRecommendedHTTPServingInfoDefaults(info)
	server, err := newServer(ctx, o, info.ServingInfo, kube)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, info.BindNetwork, info.BindAddress)
	if err != nil {
		return fmt.Errorf("listening on %s (flag --listen, or servingInfo.bindAddress of the config): %w",
			info.BindAddress, err)
	}
	klog.FromContext(ctx).Info("Serving health and metrics", "address", listener.Addr().String())
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Failed to serve health and metrics")
		}
	}()
	return nil
}

func newServer(
	ctx context.Context, o Options, info configv1.ServingInfo, kube kubernetes.Interface,
) (*http.Server, error) {
	config, err := tlsConfig(info)
	if err != nil {
		return nil, err
	}
	metrics, err := restricted(ctx, o, kube, legacyregistry.Handler())
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	healthz.InstallHandler(mux)
	healthz.InstallLivezHandler(mux)
	healthz.InstallReadyzHandler(mux, healthz.NamedCheck("work", func(*http.Request) error {
		if o.waits != nil && o.waits.Load() {
			return errors.New("the process waits: its log says why")
		}
		return nil
	}))
	mux.Handle("/metrics", metrics)
	return &http.Server{
		Handler:           mux,
		TLSConfig:         config,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10, // tokens have at most 2 KiB
		ErrorLog:          log.New(connectionLog{}, "", 0),
		// Disable HTTP/2: no client needs it, and it has been used to exhaust servers.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}, nil
}

// tlsConfig returns the configuration for the TLS profile of the cluster, which info contains.
func tlsConfig(info configv1.ServingInfo) (*tls.Config, error) {
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
	// Created on demand: that takes up to a second and is not needed if the service CA issues one.
	fallback := sync.OnceValues(selfSigned)
	// Read at each handshake: the files are rotated, and may be created after the start.
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if certificate, err := tls.LoadX509KeyPair(info.CertFile, info.KeyFile); err == nil {
			return &certificate, nil
		}
		return fallback()
	}
	return config, nil
}

// selfSigned returns a certificate to serve while there is none from the service CA.
func selfSigned() (*tls.Certificate, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("creating a self-signed certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	return &pair, err
}

// connectionLog logs what net/http reports about connections. Anybody who reaches the port can
// cause and lengthen these messages.
type connectionLog struct{}

func (connectionLog) Write(text []byte) (int, error) {
	const most = 256
	klog.V(4).Info(string(text[:min(len(text), most)]))
	return len(text), nil
}
