package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/crypto"
)

const prometheus = "system:serviceaccount:openshift-monitoring:prometheus-k8s"

// newCA creates a certificate authority.
func newCA(t *testing.T, name string) *crypto.CA {
	t.Helper()
	config, err := crypto.MakeSelfSignedCAConfig(name, time.Hour)
	assert.NilError(t, err)
	return &crypto.CA{Config: config, SerialGenerator: &crypto.RandomSerialGenerator{}}
}

func pemOf(t *testing.T, c *crypto.TLSCertificateConfig) (cert, key []byte) {
	t.Helper()
	cert, key, err := c.GetPEMBytes()
	assert.NilError(t, err)
	return cert, key
}

// clientCertificate issues a certificate of ca for a user.
func clientCertificate(t *testing.T, ca *crypto.CA, name string) *tls.Certificate {
	t.Helper()
	config, err := ca.MakeClientCertificateForDuration(&user.DefaultInfo{Name: name}, time.Hour)
	assert.NilError(t, err)
	pair, err := tls.X509KeyPair(pemOf(t, config))
	assert.NilError(t, err)
	return &pair
}

// serving starts the server and returns its address.
func serving(t *testing.T, o Options, info configv1.ServingInfo, kube *fake.Clientset) string {
	t.Helper()
	server, err := newServer(t.Context(), o, info, kube)
	assert.NilError(t, err)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

// open returns options of a server that answers everybody.
func open() Options {
	o := Options{Name: "test"}
	o.Operator.Authentication.Disabled = true
	return o
}

// cluster returns a client that knows two tokens and the CA of client certificates.
func cluster(t *testing.T, ca *crypto.CA) *fake.Clientset {
	t.Helper()
	bundle, _ := pemOf(t, ca.Config)
	kube := fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "extension-apiserver-authentication",
		},
		Data: map[string]string{"client-ca-file": string(bundle)},
	})
	users := map[string]authenticationv1.UserInfo{
		"scraper": {Username: prometheus},
		"admin":   {Username: "kube:admin", Groups: []string{user.SystemPrivilegedGroup}},
		"other":   {Username: "system:serviceaccount:ns:other"},
		"reader": {
			Username: "system:serviceaccount:ns:reader", Groups: []string{"readers", metricsReaders},
			Extra: map[string]authenticationv1.ExtraValue{"scope": {"a"}},
		},
	}
	kube.PrependReactor("create", "*", func(
		action clienttesting.Action,
	) (bool, runtime.Object, error) {
		object := action.(clienttesting.CreateAction).GetObject().DeepCopyObject()
		switch review := object.(type) {
		case *authenticationv1.TokenReview:
			review.Status.User = users[review.Spec.Token]
			review.Status.Authenticated = review.Status.User.Username != ""
		case *authorizationv1.SubjectAccessReview:
			want := authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}
			review.Status.Allowed = slices.Contains(review.Spec.Groups, "readers") &&
				review.Spec.Extra["scope"] != nil && *review.Spec.NonResourceAttributes == want
		}
		return true, object, nil
	})
	return kube
}

// request is a request to the server.
type request struct {
	method, path, token string
	certificate         *tls.Certificate
	socket              string // a Unix socket that replaces the address
}

func (r request) send(ctx context.Context, address string) (int, error) {
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // does not check the certificate
	if r.certificate != nil {
		config.Certificates = []tls.Certificate{*r.certificate}
	}
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	if r.socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", r.socket)
		}
	}
	client := &http.Client{Transport: transport}
	req, err := http.NewRequestWithContext(ctx, r.method, "https://"+address+r.path, http.NoBody)
	if err != nil {
		return 0, err
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	response, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func TestMetricsRequireAuthorization(t *testing.T) {
	t.Parallel()
	ca, foreign := newCA(t, "cluster"), newCA(t, "foreign")
	address := serving(t, Options{Name: "test", Monitoring: "openshift-monitoring"},
		configv1.ServingInfo{}, cluster(t, ca))
	mine, others := clientCertificate(t, ca, prometheus), clientCertificate(t, ca, "other")
	forged := clientCertificate(t, foreign, prometheus)
	tests := map[string]struct {
		request
		want int
	}{
		"healthz":            {request{path: "/healthz"}, http.StatusOK},
		"readyz":             {request{path: "/readyz"}, http.StatusOK},
		"livez":              {request{path: "/livez"}, http.StatusOK},
		"nothing":            {request{path: "/"}, http.StatusNotFound},
		"anonymous":          {request{path: "/metrics"}, http.StatusUnauthorized},
		"unknown token":      {request{path: "/metrics", token: "nonsense"}, http.StatusUnauthorized},
		"another user":       {request{path: "/metrics", token: "other"}, http.StatusForbidden},
		"reader, OpenShift":  {request{path: "/metrics", token: "reader"}, http.StatusForbidden},
		"Prometheus":         {request{path: "/metrics", token: "scraper"}, http.StatusOK},
		"Prometheus writing": {request{"POST", "/metrics", "scraper", nil, ""}, http.StatusForbidden},
		"administrator":      {request{path: "/metrics", token: "admin"}, http.StatusOK},
		"certificate":        {request{path: "/metrics", certificate: mine}, http.StatusOK},
		"of another user":    {request{path: "/metrics", certificate: others}, http.StatusForbidden},
		"of a foreign CA":    {request{path: "/metrics", certificate: forged}, http.StatusUnauthorized},
		"of a foreign CA with a token": {
			request{path: "/metrics", token: "scraper", certificate: forged}, http.StatusOK,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got int
			// The server reads the CA of client certificates after it started.
			err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true,
				func(ctx context.Context) (done bool, err error) {
					got, err = tt.send(ctx, address)
					return got == tt.want, err
				})
			assert.Check(t, err == nil, "got %d (%v), want %d", got, err, tt.want)
		})
	}
}

func TestPermittedUsersReadMetricsOutsideOpenShift(t *testing.T) {
	t.Parallel()
	kube := cluster(t, newCA(t, "cluster"))
	address := serving(t, Options{Name: "test"}, configv1.ServingInfo{}, kube)
	for token, want := range map[string]int{
		"reader": http.StatusOK, "other": http.StatusForbidden, "scraper": http.StatusForbidden,
		"admin": http.StatusOK, "nonsense": http.StatusUnauthorized,
	} {
		for range 2 {
			got, err := request{path: "/metrics", token: token}.send(t.Context(), address)
			assert.Check(t, err == nil && got == want,
				"token %s is answered with %d (%v), want %d", token, got, err, want)
		}
	}
	assert.Check(t, is.Equal(creations(kube, "subjectaccessreviews"), 4), "of four users")
}

// creations returns how many objects a client created.
func creations(kube *fake.Clientset, resource string) (n int) {
	for _, action := range kube.Actions() {
		if action.Matches("create", resource) {
			n++
		}
	}
	return n
}

func TestTokensAreReviewedOnce(t *testing.T) {
	t.Parallel()
	kube := cluster(t, newCA(t, "cluster"))
	address := serving(t, Options{Name: "test", Monitoring: "openshift-monitoring"},
		configv1.ServingInfo{}, kube)
	ask := func(token string, want int) {
		got, err := request{path: "/metrics", token: token}.send(t.Context(), address)
		assert.Check(t, err == nil && got == want,
			"token %s is answered with %d, error %v, want %d", token, got, err, want)
	}
	for i := range 100 {
		ask(fmt.Sprint("guess", i/2), http.StatusUnauthorized)
	}
	ask("scraper", http.StatusOK)
	assert.Check(t, is.Equal(creations(kube, "tokenreviews"), 51), "of 51 tokens")
}

func TestSlowClientsAreDisconnected(t *testing.T) {
	t.Parallel()
	server, err := newServer(t.Context(), open(), configv1.ServingInfo{}, fake.NewClientset())
	assert.NilError(t, err)
	for what, timeout := range map[string]time.Duration{
		"reading headers": server.ReadHeaderTimeout, "reading": server.ReadTimeout,
		"writing": server.WriteTimeout, "idling": server.IdleTimeout,
	} {
		assert.Check(t, timeout > 0 && timeout <= 2*time.Minute, "%s may take %v", what, timeout)
	}
	address := serving(t, open(), configv1.ServingInfo{}, fake.NewClientset())
	large := request{path: "/healthz", token: strings.Repeat("x", 32<<10)}
	got, err := large.send(t.Context(), address)
	assert.Check(t, err == nil && got == http.StatusRequestHeaderFieldsTooLarge,
		"a token of 32 KiB is answered with %d, %v", got, err)
}

func TestMetricsAreOpenWithoutAuthentication(t *testing.T) {
	t.Parallel()
	authorization := Options{Name: "test"}
	authorization.Operator.Authorization.Disabled = true
	for _, o := range []Options{open(), authorization} {
		kube := fake.NewClientset()
		address := serving(t, o, configv1.ServingInfo{}, kube)
		got, err := request{path: "/metrics"}.send(t.Context(), address)
		assert.NilError(t, err)
		assert.Check(t, is.Equal(got, http.StatusOK))
		assert.Check(t, is.Len(kube.Actions(), 0), "requests to the API server")
	}
}

func TestServerUsesTheTLSProfile(t *testing.T) {
	t.Parallel()
	const strong, other = tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
	version13 := configv1.ServingInfo{MinTLSVersion: "VersionTLS13"}
	ciphers := configv1.ServingInfo{CipherSuites: []string{tls.CipherSuiteName(strong)}}
	for name, tt := range map[string]struct {
		info         configv1.ServingInfo
		version      uint16
		suites       []uint16
		wantRejected bool
	}{
		"version 1.3":            {version13, tls.VersionTLS13, nil, false},
		"version below":          {version13, tls.VersionTLS12, nil, true},
		"listed cipher":          {ciphers, tls.VersionTLS12, []uint16{strong}, false},
		"cipher that is not":     {ciphers, tls.VersionTLS12, []uint16{other}, true},
		"version 1.1 by default": {configv1.ServingInfo{}, tls.VersionTLS11, nil, true},
		"version 1.2 by default": {configv1.ServingInfo{}, tls.VersionTLS12, nil, false},
		"1.3 by default, HTTP 1": {configv1.ServingInfo{}, tls.VersionTLS13, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := &tls.Config{
				InsecureSkipVerify: true, //nolint:gosec // an old client
				MinVersion:         tls.VersionTLS10,
				MaxVersion:         tt.version,
				CipherSuites:       tt.suites,
				NextProtos:         []string{"h2", "http/1.1"},
			}
			conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp",
				serving(t, open(), tt.info, fake.NewClientset()))
			assert.Assert(t, (err != nil) == tt.wantRejected,
				"got %v, want rejected %v", err, tt.wantRejected)
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
			state := conn.(*tls.Conn).ConnectionState()
			assert.Check(t, is.Equal(state.Version, tt.version))
			assert.Check(t, state.NegotiatedProtocol != "h2")
		})
	}
}

func TestCertificateIsReadAtEachHandshake(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	info := configv1.ServingInfo{CertInfo: configv1.CertInfo{
		CertFile: filepath.Join(folder, "tls.crt"), KeyFile: filepath.Join(folder, "tls.key"),
	}}
	address := serving(t, open(), info, fake.NewClientset())
	self := served(t, address)
	assert.Check(t, is.DeepEqual([]string{"localhost"}, self.DNSNames),
		"names of the certificate without files")
	for _, name := range []string{"first.svc", "second.svc"} {
		config, err := newCA(t, "service").MakeServerCert(sets.New(name), time.Hour)
		assert.NilError(t, err)
		cert, key := pemOf(t, config)
		assert.NilError(t, os.WriteFile(info.CertFile, cert, 0o600))
		assert.NilError(t, os.WriteFile(info.KeyFile, key, 0o600))
		assert.Check(t, is.DeepEqual([]string{name}, served(t, address).DNSNames),
			"names of the certificate")
	}
	assert.NilError(t, os.Remove(info.KeyFile))
	assert.Check(t, served(t, address).Equal(self), "without a key")
}

func served(t *testing.T, address string) *x509.Certificate {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the caller checks the certificate
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
	assert.NilError(t, err)
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

func TestProcessIsNotReadyWhileItWaits(t *testing.T) {
	t.Parallel()
	o := open()
	o.waits = &atomic.Bool{}
	address := serving(t, o, configv1.ServingInfo{}, fake.NewClientset())
	for waits, want := range map[bool]int{
		false: http.StatusOK, true: http.StatusInternalServerError,
	} {
		o.waits.Store(waits)
		got, err := request{path: "/readyz"}.send(t.Context(), address)
		assert.Check(t, err == nil && got == want, "got %d (%v), want %d", got, err, want)
	}
}
