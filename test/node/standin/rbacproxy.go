package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	tlsflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
)

// proxy stands in for kube-rbac-proxy: it serves HTTPS, and forwards a request if the API server
// authenticates the user by a token and authorizes the user for the path.
type proxy struct {
	address, upstream        string
	certFile, keyFile        string
	cipherSuites, minVersion string
}

func (p *proxy) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&p.address, "secure-listen-address", "", "Address for HTTPS, as host:port.")
	flags.StringVar(&p.upstream, "upstream", "", "URL to which requests are forwarded.")
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
	config, err := rest.InClusterConfig()
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

type guard struct {
	client kubernetes.Interface
	next   http.Handler
}

// ServeHTTP returns 401 to users without a valid token, and 403 to users who have no permission for
// the path.
func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, err := g.check(r); err != nil {
		klog.ErrorS(err, "Refused a request", "path", r.URL.Path)
		http.Error(w, http.StatusText(status), status)
		return
	}
	g.next.ServeHTTP(w, r)
}

// check returns an error and the status of the answer unless the request is permitted.
func (g guard) check(r *http.Request) (status int, err error) {
	token, isToken := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !isToken {
		return http.StatusUnauthorized, errors.New("the request has no token")
	}
	known, err := g.client.AuthenticationV1().TokenReviews().Create(r.Context(),
		&authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}},
		metav1.CreateOptions{})
	if err != nil || !known.Status.Authenticated {
		return http.StatusUnauthorized, errors.Join(errors.New("the token is not known"), err)
	}
	user := known.Status.User
	review, err := g.client.AuthorizationV1().SubjectAccessReviews().Create(r.Context(),
		&authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups,
			NonResourceAttributes: &authorization.NonResourceAttributes{
				Path: r.URL.Path, Verb: strings.ToLower(r.Method),
			},
		}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return http.StatusInternalServerError, err
	case !review.Status.Allowed:
		return http.StatusForbidden, fmt.Errorf("user %s has no permission", user.Username)
	}
	return http.StatusOK, nil
}
