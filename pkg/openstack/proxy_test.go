package openstack_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gotest.tools/v3/assert"
	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// childVariable makes this test binary a program that sends one request, because net/http reads the
// proxy variables only once per process.
const childVariable = "OPENSTACK_TEST_CLOUDS"

func TestMain(m *testing.M) {
	if file := os.Getenv(childVariable); file != "" {
		os.Exit(requestOnce(file))
	}
	os.Exit(m.Run())
}

func requestOnce(file string) int {
	text, _ := os.ReadFile(file)
	ca, _ := os.ReadFile(file + ".ca")
	login, err := openstack.Content{
		Data: map[string][]byte{openstack.CloudsKey: text, openstack.CAKey: ca},
	}.Login()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	client := openstack.NewClient(openstack.Fixed(openstack.Access{Login: login}),
		openstack.NewBackoff(clock.RealClock{}))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	types, err := client.ShareTypes(ctx)
	if err != nil {
		fmt.Println(openstack.ReasonOf(err), err)
		return 1
	}
	fmt.Println(strings.Join(namesOf(types), " "))
	return 0
}

// Only the proxy can resolve the host name of the cloud.
func TestProxyOfTheEnvironmentIsUsed(t *testing.T) {
	t.Parallel()
	const name = "cloud.invalid"
	for title, test := range map[string]struct {
		tls    bool
		status int // of the proxy's refusal; 0 means that it connects
		down   bool
		want   string
	}{
		"plain":              {want: "gold silver"},
		"TLS":                {tls: true, want: "gold silver"},
		"TLS, proxy refuses": {tls: true, status: http.StatusForbidden, want: "CloudUnreachable"},
		"TLS, proxy wants user": {
			tls: true, status: http.StatusProxyAuthRequired,
			want: "CloudUnreachable",
		},
		"TLS, proxy is down":   {tls: true, down: true, want: "CloudUnreachable"},
		"plain, proxy is down": {down: true, want: "CloudUnreachable"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, simulator.Config{TLS: test.tls, AdvertisedHost: name})
			s.clouds(simulator.Clouds{})
			if test.tls {
				s.write("clouds.yaml.ca", s.ca())
			}
			proxy := &proxy{status: test.status}
			server := httptest.NewServer(proxy)
			t.Cleanup(server.Close)
			if test.down {
				server.Close()
			}
			child := exec.CommandContext(t.Context(), os.Args[0])
			child.Env = slices.DeleteFunc(os.Environ(),
				func(v string) bool { return strings.Contains(strings.ToUpper(v), "PROXY=") })
			child.Env = append(child.Env, childVariable+"="+s.path("clouds.yaml"),
				"HTTP_PROXY="+server.URL, "HTTPS_PROXY="+strings.Replace(server.URL, "://",
					"://user:secret-proxy@", 1))
			output, err := child.CombinedOutput()
			text := strings.TrimSpace(string(output))
			wantFragment(t, text, test.want)
			if succeeded := test.want == "gold silver"; (err == nil) != succeeded {
				t.Errorf("the child ends with %v", err)
			}
			if test.want == "CloudUnreachable" {
				wantFragment(t, text, "the proxy cannot be used")
			}
			assert.Check(t, !strings.Contains(text, "secret-proxy"),
				"message holds the proxy's password: %s", text)
			if used := proxy.used.Load() > 0; used == test.down {
				t.Errorf("proxy was used %t", used)
			}
		})
	}
}

// proxy forwards every request to the loopback interface.
type proxy struct {
	status int
	used   atomic.Int32
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.used.Add(1)
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil || p.status != 0 {
		w.WriteHeader(p.status)
		return
	}
	if r.Method == http.MethodConnect {
		tunnel(r.Context(), w, net.JoinHostPort("127.0.0.1", port))
		return
	}
	r.URL.Host, r.RequestURI = net.JoinHostPort("127.0.0.1", port), ""
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	for key, values := range answer.Header {
		w.Header()[key] = values
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// tunnel copies between the caller and the address until one of them closes the connection.
func tunnel(ctx context.Context, w http.ResponseWriter, address string) {
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
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
