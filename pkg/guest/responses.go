package guest

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	// maxError limits the body of a response with an error status, in bytes. Conditions, events and
	// logs quote it.
	maxError = 64 << 10
	// maxHeader limits the header of a response, in bytes.
	maxHeader = 64 << 10
	// maxRetryAfter limits for how many seconds the server can delay a request.
	maxRetryAfter = 30
	// requestTimeout limits all requests except watches. client-go ends watches after ten minutes.
	requestTimeout, watchTimeout = time.Minute, 15 * time.Minute
	// requestRate, in requests per second, and requestBurst are above what a start needs. client-go
	// does not throttle watches and repeats some of them without a delay.
	requestRate, requestBurst = 50, 500
)

var (
	errTooLong = errors.New("the API server of the guest cluster sends more than the operator may " +
		"store: check the APIServices, and the size of the objects")
	errNotJSON = errors.New("the API server of the guest cluster does not respond with JSON: " +
		"check the APIServices")
	errRedirected = errors.New("the API server of the guest cluster redirects the request, which is " +
		"not allowed: check the APIServices")
)

// LimitResponses returns a wrapper of all transports to the API server of the guest side. Together
// their responses, and the objects that caches keep of them, use a limited amount of memory. The
// administrator of the guest cluster can make the API server forward requests of an API group to
// any server.
//
// A response beyond the limit ends with an error. After such an error an informer lists the objects
// again, which removes from its cache what the API server does not list.
//
// Requests have a limited rate and a timeout. Redirects, which would send the token to another
// server, are errors. So is every format except JSON: client-go would decode any format that the
// server chooses, and the memory that YAML and protobuf need cannot be estimated.
func LimitResponses() transport.WrapperFunc {
	memory := &budget{shares: map[string]*share{}}
	limiter := flowcontrol.NewTokenBucketRateLimiter(requestRate, requestBurst)
	return func(next http.RoundTripper) http.RoundTripper { return &limited{next, memory, limiter} }
}

type limited struct {
	next    http.RoundTripper
	budget  *budget
	limiter flowcontrol.RateLimiter
}

// RoundTrip implements http.RoundTripper.
func (l *limited) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(request.Context(), timeoutOf(request))
	response, err := l.send(request.Clone(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = l.limitBody(request, response, cancel)
	return response, nil
}

// limitBody cuts errors, so that the caller still learns the status code.
func (l *limited) limitBody(
	request *http.Request, response *http.Response, cancel context.CancelFunc,
) io.ReadCloser {
	limited := &limitedBody{
		Reader: response.Body, body: response.Body, account: l.budget.temporary(), cancel: cancel,
	}
	if response.StatusCode >= http.StatusBadRequest {
		limited.Reader = io.LimitReader(response.Body, maxError)
		return limited
	}
	limited.account, limited.maxDocument = l.budget.open(request), maxDocument(request)
	limited.estimate.events = isWatch(request)
	return limited
}

func (l *limited) send(request *http.Request) (*http.Response, error) {
	if err := l.limiter.Wait(request.Context()); err != nil {
		return nil, err
	}
	request.Header.Set("Accept", runtime.ContentTypeJSON)
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if err := check(response); err != nil {
		return nil, errors.Join(err, response.Body.Close())
	}
	return response, nil
}

// WrappedRoundTripper returns the transport for client-go.
func (l *limited) WrappedRoundTripper() http.RoundTripper { return l.next }

func timeoutOf(request *http.Request) time.Duration {
	if isWatch(request) {
		return watchTimeout
	}
	return requestTimeout
}

func isWatch(request *http.Request) bool {
	watch := request.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// check returns an error for responses that must not be read. It changes headers with which a
// server could delay requests or choose the decoder of an error.
func check(response *http.Response) error {
	header := response.Header
	size := 0
	for name, values := range header {
		size += len(name) + len(strings.Join(values, ""))
	}
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	isJSON := err == nil && mediaType == runtime.ContentTypeJSON
	switch failed := response.StatusCode >= http.StatusBadRequest; {
	case !failed && response.StatusCode >= http.StatusMultipleChoices:
		return errRedirected
	case size > maxHeader:
		return errTooLong
	case !failed && !isJSON:
		return errNotJSON
	case !isJSON:
		header.Set("Content-Type", "text/plain")
	}
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil && seconds > maxRetryAfter {
		header.Set("Retry-After", strconv.Itoa(maxRetryAfter))
	}
	return nil
}

// limitedBody returns an error when the account or the document has no room for what it reads.
type limitedBody struct {
	io.Reader
	body     io.Closer
	account  *account
	cancel   context.CancelFunc
	estimate estimate
	// maxDocument limits the text, or each event, in bytes. 0 is no limit.
	maxDocument int
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	fits := b.account.add(b.estimate.add(p[:n]))
	if !fits || b.maxDocument > 0 && b.estimate.largest > b.maxDocument {
		return 0, errTooLong
	}
	return n, err
}

// Close implements io.Closer.
func (b *limitedBody) Close() error {
	defer b.cancel()
	b.account.close()
	return b.body.Close()
}
