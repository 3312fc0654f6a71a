package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net/http/httputil"
	"net/url"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
	tlsflag "k8s.io/component-base/cli/flag"
)

// proxy stands in for kube-rbac-proxy: it serves HTTPS, and forwards a request if the API server
// authenticates the user by a token and authorizes the user for the path.
type proxy struct {
	address, upstream, kubeconfig string
	certFile, keyFile             string
	cipherSuites, minVersion      string
}

func (p *proxy) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&p.address, "secure-listen-address", "", "Address for HTTPS, as host:port.")
	flags.StringVar(&p.upstream, "upstream", "", "URL to which requests are forwarded.")
	flags.StringVar(&p.kubeconfig, "kubeconfig", "",
		"Path of a kubeconfig; by default the ServiceAccount of the pod is used.")
	flags.StringVar(&p.certFile, "tls-cert-file", "",
		"Path of the certificate; by default the proxy makes one itself.")
	flags.StringVar(&p.keyFile, "tls-private-key-file", "", "Path of the key of the certificate.")
	flags.StringVar(&p.cipherSuites, "tls-cipher-suites", "", "Names of cipher suites, by commas.")
	flags.StringVar(&p.minVersion, "tls-min-version", "VersionTLS12", "The lowest version of TLS.")
}

func (p *proxy) Run(ctx context.Context) error {
	upstream, err := url.Parse(p.upstream)
	if err != nil || upstream.Host == "" {
		return fmt.Errorf("--upstream: %q is no URL of a server", p.upstream)
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	security, err := p.tls()
	if err != nil {
		return err
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(upstream)
		r.SetXForwarded()
	}}
	return serveHTTP(ctx, p.address, guard{client: client, next: forward}, security)
}

// tls returns the TLS configuration in the flags.
func (p *proxy) tls() (*tls.Config, error) {
	version, err := tlsflag.TLSVersion(p.minVersion)
	if err != nil {
		return nil, fmt.Errorf("--tls-min-version: %w", err)
	}
	var names []string
	if p.cipherSuites != "" {
		names = strings.Split(p.cipherSuites, ",")
	}
	suites, err := tlsflag.TLSCipherSuites(names)
	if err != nil {
		return nil, fmt.Errorf("--tls-cipher-suites: %w", err)
	}
	load, err := p.certificate()
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: version, CipherSuites: suites, GetCertificate: load}, nil
}

// certificate returns a function that reads the files for each connection, so that a new
// certificate needs no restart. Without files it returns one certificate that the proxy makes.
func (p *proxy) certificate() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	load := func() (tls.Certificate, error) { return tls.LoadX509KeyPair(p.certFile, p.keyFile) }
	if p.certFile == "" && p.keyFile == "" {
		certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
		if err != nil {
			return nil, err
		}
		load = func() (tls.Certificate, error) { return tls.X509KeyPair(certificate, key) }
	}
	if _, err := load(); err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := load()
		return &pair, err
	}, nil
}
