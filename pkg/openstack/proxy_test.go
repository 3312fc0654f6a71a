package openstack_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Hosts of clouds behind the proxy. Only the proxy can resolve their names.
const open, forbidden = "cloud.invalid", "forbidden.invalid"

// TestMain sets the proxy variables, because net/http reads them only once per process. Requests to
// the loopback interface use no proxy. That of HTTP is down.
func TestMain(m *testing.M) {
	proxy, down := httptest.NewServer(http.HandlerFunc(connect)), httptest.NewServer(nil)
	down.Close()
	for name, url := range map[string]string{
		"HTTP_PROXY": down.URL, "NO_PROXY": "",
		"HTTPS_PROXY": strings.Replace(proxy.URL, "://", "://user:secret-proxy@", 1),
	} {
		_ = os.Setenv(name, url)                  // never returns an error for these names
		_ = os.Setenv(strings.ToLower(name), url) // which has precedence for some
	}
	code := m.Run()
	proxy.Close()
	os.Exit(code)
}

func TestProxyOfTheEnvironmentIsUsed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tls  bool
		host string
	}{
		"connects": {true, open}, "refuses": {true, forbidden}, "is down": {false, open},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(t, simulator.Config{TLS: test.tls, AdvertisedHost: test.host})
			if test.tls {
				s.write("ca.crt", s.ca())
			}
			if name == "connects" {
				s.wantTypes(s.client(), "gold", "silver")
				return
			}
			message := s.wantFailure(s.client(), openstack.CloudUnreachable)
			wantFragment(t, message, "the proxy cannot be used")
		})
	}
}

// connect connects a client of the proxy to a port of the loopback interface.
func connect(w http.ResponseWriter, r *http.Request) {
	host, port, _ := net.SplitHostPort(r.Host) // the requests of the tests have a port
	if r.Method != http.MethodConnect || host == forbidden {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	server, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer func() { _ = server.Close() }()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = client.Close() }()
	_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}
