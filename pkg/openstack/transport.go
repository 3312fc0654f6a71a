package openstack

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// Limits of one response. The largest responses of real clouds, catalogs of many regions, reach a
// tenth of them.
const (
	// callTimeout limits one HTTP call, including its body. Logins at busy clouds take over 30 s.
	callTimeout = 120 * time.Second
	// dialTimeout is that of http.DefaultTransport.
	dialTimeout = 30 * time.Second
	// maxHeader is in bytes. A header contains the token.
	maxHeader = 256 << 10
	// maxBody is in bytes, after decompression.
	maxBody = 4 << 20
	// maxValues is the number of JSON values. A value takes many times the memory of its text.
	maxValues = 100_000
	// maxRedirects is that of net/http, which the drivers use.
	maxRedirects = 9
	// longBody and longValues are the limits for lists: Manila lists each share type twice, with up to
	// twenty values.
	longBody   = 8 << 20
	longValues = 400_000
)

// size is a number of bytes and JSON values.
type size struct{ bytes, values int }

type longBodyKey struct{}

// withLongBody returns a context for a GET request whose response may be as large as longBody. Its
// caller decodes only the fields that it needs.
func withLongBody(ctx context.Context) context.Context {
	return context.WithValue(ctx, longBodyKey{}, true)
}

// httpClient returns a client that calls observe after each request.
func httpClient(
	a Access, roots *x509.CertPool, observe func(*url.URL, *http.Response, time.Duration),
) http.Client {
	// The default transport reads the proxy variables of the environment.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            roots,
		InsecureSkipVerify: a.Insecure, //nolint:gosec // `verify: false` in clouds.yaml
	}
	// With HTTP/2 a connection that does not answer any more would stay in use.
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	transport.DialContext = dial
	transport.MaxIdleConnsPerHost = concurrentRequests
	transport.OnProxyConnectResponse = checkProxyResponse
	transport.MaxResponseHeaderBytes = maxHeader
	return http.Client{
		Transport: limitedTransport{transport, a.CA, observe}, Timeout: callTimeout,
		CheckRedirect: checkRedirect,
	}
}

// proxyStatusError is the HTTP status with which a proxy refuses to connect.
type proxyStatusError int

func (s proxyStatusError) Error() string { return http.StatusText(int(s)) }

// checkProxyResponse returns an error that describe recognizes if the proxy refuses to connect. The
// error of net/http would contain only the text of the status.
func checkProxyResponse(_ context.Context, _ *url.URL, _ *http.Request, r *http.Response) error {
	if r.StatusCode == http.StatusOK {
		return nil
	}
	return proxyError(proxyStatusError(r.StatusCode))
}

// proxyError returns an error as net/http returns it if it cannot connect to a proxy.
func proxyError(err error) error { return &net.OpError{Op: proxyConnect, Net: "tcp", Err: err} }

// proxiedError is the error of a request through a proxy.
type proxiedError struct{ error }

func (e *proxiedError) Unwrap() error { return e.error }

// answerError is an error of a request that was answered, with the kind of the answer if its header
// was complete.
type answerError struct {
	error
	kind string
}

func (e *answerError) Unwrap() error { return e.error }

// shown returns the kind as the end of a clause.
func (e *answerError) shown() string {
	if e.kind == "" {
		return ""
	}
	return ": the server answers " + e.kind
}

// limitedTransport limits responses: reading the body beyond the limits returns an error. It
// calls observe with the response, nil if there is none, and the time until its header arrived.
// After a request without a response, it keeps no idle connection.
type limitedTransport struct {
	*http.Transport

	ca      string
	observe func(*url.URL, *http.Response, time.Duration)
}

func (t limitedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	start := time.Now()
	var a progress
	traced := httptrace.WithClientTrace(request.Context(), a.trace())
	response, err := t.Transport.RoundTrip(request.WithContext(traced))
	t.observe(request.URL, response, time.Since(start))
	if proxy, _ := t.Proxy(request); err != nil {
		t.CloseIdleConnections() // whatever ended this one may have ended them, too
		if isType[*tls.CertificateVerificationError](err) {
			err = &certificateError{err, t.ca}
		}
		return nil, a.classified(err, request.URL, proxy)
	}
	const redirects = 3 // the class of status
	if _, err := response.Location(); response.StatusCode/100 == redirects && err != nil &&
		!errors.Is(err, http.ErrNoLocation) {
		_ = response.Body.Close()
		return nil, errNoLocation
	}
	limit := size{maxBody, maxValues}
	if request.Method == http.MethodGet && request.Context().Value(longBodyKey{}) != nil {
		limit = size{longBody, longValues} // but not for a login in between
	}
	response.Body = &limitedBody{
		ReadCloser: response.Body, limit: limit, left: limit, response: response,
	}
	return response, nil
}

// firstBytes keeps the first bytes that a server sends without TLS: they tell its protocol.
type firstBytes struct {
	net.Conn

	start atomic.Pointer[[]byte]
}

// dial connects for HTTP without TLS, or for the handshake.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext(ctx, network,
		address)
	if err != nil {
		return nil, err
	}
	return &firstBytes{Conn: conn}, nil
}

func (c *firstBytes) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	start := bytes.Clone(p[:min(n, len("SSH-"))])
	c.start.CompareAndSwap(nil, &start)
	return n, err
}

// progress is how far a request has come. Its connection may outlive it.
type progress struct {
	reached, failed, answered atomic.Bool
	conn                      atomic.Pointer[firstBytes]
}

func (a *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			a.reached.Store(true)
			if conn, ok := info.Conn.(*firstBytes); ok {
				a.conn.Store(conn)
			}
		},
		TLSHandshakeStart:    func() { a.reached.Store(true) },
		TLSHandshakeDone:     func(_ tls.ConnectionState, err error) { a.failed.Store(err != nil) },
		GotFirstResponseByte: func() { a.answered.Store(true) },
	}
}

// classified returns the error of a request to a URL through a proxy, nil for none.
func (a *progress) classified(err error, to, proxy *url.URL) error {
	op, _ := errors.AsType[*net.OpError](err)
	switch ofProxy := op != nil && op.Op == proxyConnect; {
	case ofProxy:
	case errors.Is(err, context.Canceled):
	case proxy != nil && to.Scheme == "https" && !a.reached.Load():
		err = proxyError(err) // it does not answer, or not as a proxy
	case proxy != nil:
		err = &proxiedError{err}
	}
	if conn := a.conn.Load(); a.answered.Load() && conn != nil {
		spoken := strings.TrimSuffix(position.Protocol(*conn.start.Load()), "with plain HTTP")
		err = &answerError{err, spoken}
	} else if a.answered.Load() {
		err = &answerError{err, ""}
	}
	if a.failed.Load() {
		err = &handshakeError{err}
	}
	return err
}
