//go:build e2e

package promises

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMetricsNeedTokenWithPermission scrapes each port of the metrics Services of operators and
// drivers, in which kube-rbac-proxy or the operator itself checks the token.
func TestMetricsNeedTokenWithPermission(t *testing.T) {
	x := use(t, kind{tls: true})
	// Volumes and shares are created, so the metrics contain calls of the drivers.
	x.write("metrics").mustHaveWritten()
	x.runAfter("kubectl delete sa/metrics-reader sa/metrics-stranger clusterrole/metrics-reader " +
		"clusterrolebinding/metrics-reader")
	x.run(`kubectl create serviceaccount metrics-reader
kubectl create serviceaccount metrics-stranger
kubectl create clusterrole metrics-reader --non-resource-url=/metrics --verb=get
kubectl create clusterrolebinding metrics-reader --clusterrole=metrics-reader \
	--serviceaccount=default:metrics-reader`)
	allowed := strings.TrimSpace(x.run("kubectl create token metrics-reader"))
	stranger := strings.TrimSpace(x.run("kubectl create token metrics-stranger"))
	calls := map[string]bool{}
	for _, url := range x.metricsURLs() {
		for token, want := range map[string]int{
			"": http.StatusUnauthorized, "a.b.c": http.StatusUnauthorized,
			stranger: http.StatusForbidden,
		} {
			status, body, err := scrape(t.Context(), url, token)
			x.Must(err)
			if status != want || strings.Contains(body, "# TYPE") {
				t.Errorf("%s answered %d to a token of %d characters, want %d: %.200s",
					url, status, len(token), want, body)
			}
		}
		body := x.mustScrape(url, allowed)
		for _, o := range x.Cluster.Operators {
			call := fmt.Sprintf("driver_name=%q,grpc_status_code=\"OK\"", o.ClusterCSIDriver)
			created := strings.Contains(body, call) && strings.Contains(body, "CreateVolume")
			calls[o.Driver] = calls[o.Driver] || created
		}
	}
	for _, o := range x.Cluster.Operators {
		assert.Check(t, calls[o.Driver],
			"no metrics contain the call CreateVolume of driver %s", o.Driver)
	}
}

// metricsURLs returns the URLs that Prometheus scrapes: each address and port of the Services whose
// name ends in -metrics.
func (x *test) metricsURLs() []string {
	x.T.Helper()
	slices, err := x.Cluster.Client.DiscoveryV1().EndpointSlices("").List(x.T.Context(),
		metav1.ListOptions{})
	x.Must(err)
	var urls []string
	services := map[string]bool{}
	for _, slice := range slices.Items {
		service := slice.Labels[discoveryv1.LabelServiceName]
		if !strings.HasSuffix(service, "-metrics") {
			continue
		}
		services[service] = true
		for _, endpoint := range slice.Endpoints {
			for _, port := range slice.Ports {
				host := net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port)))
				urls = append(urls, "https://"+host+"/metrics")
			}
		}
	}
	// One Service of each operator, and one of each driver.
	assert.Assert(x.T, len(services) == 2*len(x.Cluster.Operators),
		"the metrics Services with pods are %v", services)
	x.T.Logf("the Services %v have %d ports with metrics", services, len(urls))
	return urls
}

// mustScrape returns the metrics.
func (x *test) mustScrape(url, token string) string {
	x.T.Helper()
	var body string
	// The permission of the token may be new.
	x.Eventually(url+" answers", func() error {
		status, answer, err := scrape(x.T.Context(), url, token)
		if err == nil && (status != http.StatusOK || !strings.Contains(answer, "# TYPE go_info")) {
			err = fmt.Errorf("status %d: %.200s", status, answer)
		}
		body = answer
		return err
	})
	return body
}

// scrape sends a request with a token, or without one.
func scrape(ctx context.Context, url, token string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{Timeout: timeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		// Without the service CA of OpenShift, servers make their certificates themselves.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the test is the client
	}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), err
}
