//go:build e2e

package promises

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// TestMetricsNeedTokenWithPermission scrapes each port of the metrics Services of operators and
// drivers, in which kube-rbac-proxy or the operator itself checks the token.
func TestMetricsNeedTokenWithPermission(t *testing.T) {
	x := use(t, kind{tls: true})
	// Volumes and shares are created, so the metrics contain calls of the drivers.
	x.mustHaveWritten(x.write("metrics-volume", pods.Cinder()), "metrics-volume")
	x.mustHaveWritten(x.write("metrics-share", pods.Manila()), "metrics-share")
	allowed, stranger := x.account("metrics-reader"), x.account("metrics-stranger")
	x.allowMetrics("metrics-reader")
	calls := map[string]bool{}
	for url := range x.metricsURLs() {
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

// account creates a ServiceAccount and returns a token for it.
func (x *test) account(name string) string {
	x.T.Helper()
	accounts := x.Cluster.Client.CoreV1().ServiceAccounts(namespace)
	_, err := accounts.Create(x.T.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, metav1.CreateOptions{})
	x.Must(err)
	x.CleanUp(func(ctx context.Context) error {
		return accounts.Delete(ctx, name, metav1.DeleteOptions{})
	})
	token, err := accounts.CreateToken(x.T.Context(), name, &authenticationv1.TokenRequest{},
		metav1.CreateOptions{})
	x.Must(err)
	return token.Status.Token
}

// allowMetrics lets a ServiceAccount read metrics, as the ClusterRole of Prometheus does.
func (x *test) allowMetrics(account string) {
	x.T.Helper()
	rbac := x.Cluster.Client.RbacV1()
	meta := metav1.ObjectMeta{Name: account}
	_, err := rbac.ClusterRoles().Create(x.T.Context(), &rbacv1.ClusterRole{
		ObjectMeta: meta,
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	x.Must(err)
	_, err = rbac.ClusterRoleBindings().Create(x.T.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace,
		}},
	}, metav1.CreateOptions{})
	x.Must(err)
	x.CleanUp(func(ctx context.Context) error {
		return errors.Join(rbac.ClusterRoleBindings().Delete(ctx, account, metav1.DeleteOptions{}),
			rbac.ClusterRoles().Delete(ctx, account, metav1.DeleteOptions{}))
	})
}

// metricsURLs returns the URLs that Prometheus scrapes: each address and port of the Services whose
// name ends in -metrics. The value is the Service.
func (x *test) metricsURLs() map[string]string {
	x.T.Helper()
	slices, err := x.Cluster.Client.DiscoveryV1().EndpointSlices("").List(x.T.Context(),
		metav1.ListOptions{})
	x.Must(err)
	urls, services := map[string]string{}, map[string]bool{}
	for _, slice := range slices.Items {
		service := slice.Labels[discoveryv1.LabelServiceName]
		if !strings.HasSuffix(service, "-metrics") {
			continue
		}
		services[service] = true
		for _, endpoint := range slice.Endpoints {
			for _, port := range slice.Ports {
				host := net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port)))
				urls["https://"+host+"/metrics"] = service
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
