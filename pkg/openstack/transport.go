package openstack

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// What one answer may cost. The largest answers of real clouds, catalogs of many regions, are a tenth of this.
const (
	// callTimeout bounds one HTTP call, its body included. Busy clouds have needed more than 30 s to answer a login.
	callTimeout = 120 * time.Second
	// maxHeader is in bytes. A token comes in a header.
	maxHeader = 256 << 10
	// maxBody is in bytes, after decompression.
	maxBody = 4 << 20
	// maxValues is how many JSON values an answer may have: a value takes many times the memory of its text.
	maxValues = 100_000
	// maxRedirects is how often a request may be sent on.
	maxRedirects = 3
)

var (
	// errTooLarge is an answer beyond maxBody or maxValues.
	errTooLarge = errors.New("answer is too large")
	// errRedirected is an answer that sends the request, with token or password, where it does not belong.
	errRedirected = errors.New("redirected")
)

func httpClient(a *access, roots *x509.CertPool) http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone() // honours the proxy variables of the environment
	transport.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            roots,
		InsecureSkipVerify: a.cloud.Verify != nil && !*a.cloud.Verify, //nolint:gosec // the administrator says `verify: false` in clouds.yaml
	}
	transport.OnProxyConnectResponse = refusedByProxy
	transport.MaxResponseHeaderBytes = maxHeader
	return http.Client{Transport: bounded{transport}, Timeout: callTimeout, CheckRedirect: checkRedirect}
}

// refusedByProxy marks a proxy's refusal as what it is; net/http would make it an error of nothing but the status text.
func refusedByProxy(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusOK {
		return nil
	}
	return &net.OpError{Op: proxyConnect, Net: "tcp", Err: errors.New(http.StatusText(answer.StatusCode))}
}

// checkRedirect lets a request stay on its host, and change from http to https there. net/http would send the token, and with
// status 307 or 308 the password too, to any host.
func checkRedirect(to *http.Request, via []*http.Request) error {
	from := via[0].URL
	sameServer := to.URL.Scheme == from.Scheme && to.URL.Host == from.Host
	upgraded := from.Scheme == "http" && to.URL.Scheme == "https" && to.URL.Hostname() == from.Hostname()
	if len(via) > maxRedirects || to.URL.User != nil || !sameServer && !upgraded {
		return errRedirected
	}
	return nil
}

// bounded keeps answers within bounds: what exceeds them is an error of the body, after at most maxBody bytes.
type bounded struct{ *http.Transport }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := b.Transport.RoundTrip(request)
	if err == nil {
		answer.Body = &boundedBody{ReadCloser: answer.Body, bytes: maxBody, values: maxValues}
	}
	return answer, err
}

// boundedBody counts down what may still come.
type boundedBody struct {
	io.ReadCloser
	bytes, values int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.bytes < 0 || b.values < 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p)
	b.bytes -= n
	// Each JSON value but the first of an array or object follows a comma. Characters within texts count too.
	for _, separator := range []byte("[{,") {
		b.values -= bytes.Count(p[:n], []byte{separator})
	}
	if b.bytes < 0 || b.values < 0 {
		return 0, errTooLarge
	}
	return n, err
}
