//go:build integration

package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newOperatorClient returns a client that accepts the self-signed certificate of an operator.
func newOperatorClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // self-signed.
	}}
}

// get sends a request to the operator's HTTPS server and returns the status and the body.
func (e *env) get(path, token string) (int, string, error) {
	return e.fetch(e.ctx(), path, token)
}

// fetch is get with another context.
func (e *env) fetch(ctx context.Context, path, token string) (int, string, error) {
	address, err := e.address()
	if err != nil {
		return 0, "", err
	}
	url := "https://" + address + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := e.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// prometheusToken returns the token of the ServiceAccount with which Prometheus scrapes.
func (e *env) prometheusToken(ctx context.Context) (string, error) {
	if e.scraper != "" {
		return e.scraper, nil
	}
	const namespace, name = "openshift-monitoring", "prometheus-k8s"
	accounts := e.guest.kube.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := accounts.Create(ctx, account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	review := &authenticationv1.TokenRequest{}
	token, err := accounts.CreateToken(ctx, name, review, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	e.scraper = token.Status.Token
	return e.scraper, nil
}

// scrape returns what the operator serves at /metrics.
func (e *env) scrape(ctx context.Context) (string, error) {
	token, err := e.prometheusToken(ctx)
	if err != nil {
		return "", err
	}
	status, text, err := e.fetch(ctx, "/metrics", token)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the operator returned %d for /metrics: %s", status, text)
	}
	return text, err
}

// metric returns the sum of the samples of a metric whose labels contain all given texts, such as
// `service="Manila"`.
func (e *env) metric(name string, labels ...string) (float64, error) {
	text, err := e.scrape(e.ctx())
	if err != nil {
		return 0, err
	}
	return sumSamples(text, name, labels...)
}

// sumSamples sums the samples of a metric in Prometheus' text format.
func sumSamples(text, name string, labels ...string) (float64, error) {
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		sampleName, rest, ok := strings.Cut(strings.TrimSpace(line), "{")
		if !ok || sampleName != name {
			continue
		}
		set, value, ok := strings.Cut(rest, "} ")
		if !ok || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(set, l) }) {
			continue
		}
		var number float64
		if _, err := fmt.Sscan(value, &number); err != nil {
			return 0, fmt.Errorf("decoding metric %s: %w", line, err)
		}
		sum, found = sum+number, true
	}
	if !found {
		return 0, errors.New("there is no metric " + name + " with " + strings.Join(labels, ", "))
	}
	return sum, nil
}

// polls returns the number of probes that the operator has completed since its start.
func (e *env) polls() (float64, error) {
	return e.metric("openstack_csi_cloud_checks_total")
}

// awaitPolls waits until the operator has completed n more probes.
func (e *env) awaitPolls(n int) {
	e.t.Helper()
	first := -1.0
	e.eventually(soon+time.Duration(n)*2*time.Second, func() error {
		now, err := e.polls()
		if err != nil {
			return err
		}
		if first < 0 {
			first = now
		}
		if now-first < float64(n) {
			return fmt.Errorf("the operator completed %v more probes, want %d", now-first, n)
		}
		return nil
	})
}
