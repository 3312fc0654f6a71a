package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/cert"
)

func TestProxyForwardsWhatTheAPIServerPermits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path, authorization string
		want                int
	}{
		"permitted":     {"/metrics", "Bearer prometheus", http.StatusOK},
		"other path":    {"/debug", "Bearer prometheus", http.StatusForbidden},
		"other user":    {"/metrics", "Bearer nobody", http.StatusForbidden},
		"unknown token": {"/metrics", "Bearer stolen", http.StatusUnauthorized},
		"no token":      {"/metrics", "", http.StatusUnauthorized},
		"no bearer":     {"/metrics", "Basic cHJvbWV0aGV1cw==", http.StatusUnauthorized},
		"broken server": {"/broken", "Bearer prometheus", http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, "from upstream")
			})
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path,
				http.NoBody)
			request.Header.Set("Authorization", test.authorization)
			recorder := httptest.NewRecorder()
			guard{client: apiServer(), next: upstream}.ServeHTTP(recorder, request)
			if recorder.Code != test.want {
				t.Errorf("HTTP %d, want %d", recorder.Code, test.want)
			}
			forwarded := recorder.Body.String() == "from upstream"
			if forwarded != (test.want == http.StatusOK) {
				t.Errorf("the answer is %q", recorder.Body.String())
			}
		})
	}
}

// apiServer returns an API server that knows the tokens prometheus and nobody. It permits the user
// prometheus to get /metrics.
func apiServer() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(
		action k8stesting.Action,
	) (bool, runtime.Object, error) {
		review := action.(k8stesting.CreateAction).GetObject().(*authentication.TokenReview)
		review.Status.User.Username = review.Spec.Token
		review.Status.Authenticated = review.Spec.Token != "stolen"
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(
		action k8stesting.Action,
	) (bool, runtime.Object, error) {
		review := action.(k8stesting.CreateAction).GetObject().(*authorization.SubjectAccessReview)
		asked := *review.Spec.NonResourceAttributes
		if asked.Path == "/broken" {
			return true, nil, errors.New("the API server is broken")
		}
		review.Status.Allowed = review.Spec.User == "prometheus" &&
			asked == authorization.NonResourceAttributes{Path: "/metrics", Verb: "get"}
		return true, review, nil
	})
	return client
}

func TestProxyRefusesOtherVersionsAndCiphers(t *testing.T) {
	t.Parallel()
	const weak, strong = tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
	const onlyTLS13 = "--tls-min-version=VersionTLS13"
	const onlyStrong = "--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
	for name, test := range map[string]struct {
		flag    string
		version uint16 // the highest of the client
		cipher  uint16 // the only one of the client before TLS 1.3
		refused bool
	}{
		"lower version": {onlyTLS13, tls.VersionTLS12, strong, true},
		"same version":  {onlyTLS13, tls.VersionTLS13, strong, false},
		"other cipher":  {onlyStrong, tls.VersionTLS12, weak, true},
		"same cipher":   {onlyStrong, tls.VersionTLS12, strong, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := anyCertificate()
			client.MaxVersion, client.CipherSuites = test.version, []uint16{test.cipher}
			_, err := handshake(t, serve(t, test.flag), client)
			if refused := err != nil; refused != test.refused {
				t.Errorf("error %v, want refused: %t", err, test.refused)
			}
		})
	}
}

// anyCertificate returns the configuration of a client that accepts any certificate.
func anyCertificate() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the proxy makes certificates itself
}

func TestProxyUsesANewCertificateWithoutARestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	certFile, keyFile := filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	writeCertificate(t, "first.test", certFile, keyFile)
	server := serve(t, "--tls-cert-file="+certFile, "--tls-private-key-file="+keyFile)
	for _, host := range []string{"first.test", "second.test"} {
		writeCertificate(t, host, certFile, keyFile)
		state, err := handshake(t, server, anyCertificate())
		if err != nil {
			t.Fatal(err)
		}
		if err := state.PeerCertificates[0].VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
}

func TestFlagsAreValidated(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--tls-min-version":       {"--tls-min-version=TLS9"},
		"--tls-cipher-suites":     {"--tls-cipher-suites=ROT13"},
		"reading the certificate": {"--tls-cert-file=/missing", "--tls-private-key-file=/missing"},
	} {
		if _, err := parse(t, args...).tls(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v", args, err)
		}
	}
	err := parse(t, "--upstream=localhost").Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "--upstream") {
		t.Errorf("error %v", err)
	}
}

func parse(t *testing.T, args ...string) *proxy {
	t.Helper()
	p := &proxy{}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	p.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return p
}

// serve serves HTTPS with the TLS configuration in the flags, and returns the address.
func serve(t *testing.T, args ...string) string {
	t.Helper()
	config, err := parse(t, args...).tls()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Listener = tls.NewListener(server.Listener, config)
	server.Start()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func handshake(t *testing.T, address string, config *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState(), nil
}

func writeCertificate(t *testing.T, host, certFile, keyFile string) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{certFile: certificate, keyFile: key} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
