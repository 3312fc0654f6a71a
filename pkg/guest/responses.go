package guest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// LimitResponses returns a wrapper of all transports to the API server of the guest side. It limits
// the memory of each list, with the objects that a cache keeps of it. The administrator of the
// guest cluster can make the API server forward requests of an API group to any server.
//
// A response beyond the limit ends with an error. Events have a limit of their own, beyond which a
// watch ends and the next one returns 410 Gone: then the informer lists the objects again, without
// an error, which removes from its cache what the API server does not list.
//
// Requests have a limited rate and a timeout. Redirects, which would send the token to another
// server, are errors. So is every format except JSON: client-go would decode any format that the
// server chooses, and the memory that YAML and protobuf need cannot be estimated.
func LimitResponses() transport.WrapperFunc {
	memory := &usages{byResource: map[string]*usage{}}
	limiter := flowcontrol.NewTokenBucketRateLimiter(requestRate, requestBurst)
	return func(next http.RoundTripper) http.RoundTripper { return &limited{next, memory, limiter} }
}

type limited struct {
	next    http.RoundTripper
	usages  *usages
	limiter flowcontrol.RateLimiter
}

// RoundTrip implements http.RoundTripper.
func (l *limited) RoundTrip(request *http.Request) (*http.Response, error) {
	used, ok := l.usages.of(request)
	if !ok {
		return &http.Response{StatusCode: http.StatusGone, Body: http.NoBody, Request: request}, nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), timeoutOf(request))
	response, err := l.send(request.Clone(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	body := &limitedBody{
		ReadCloser: response.Body, cancel: cancel, mu: &l.usages.mu, used: used,
		limit: limitOf(request), listing: isList(request), watching: isWatch(request),
	}
	response.Body = body
	if response.StatusCode >= http.StatusBadRequest { // The caller still learns the status code.
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(body.ReadCloser, maxError), body}
	}
	return response, nil
}

func (l *limited) send(request *http.Request) (*http.Response, error) {
	if err := l.limiter.Wait(request.Context()); err != nil {
		return nil, err
	}
	request.Header.Set("Accept", jsonOnly(request.Header.Get("Accept")))
	response, err := l.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if err := check(response); err != nil {
		return nil, errors.Join(err, response.Body.Close())
	}
	return response, nil
}

// jsonOnly returns the media types of a request header that are JSON. Their parameters select
// metadata instead of whole objects.
func jsonOnly(accept string) string {
	types := slices.DeleteFunc(strings.Split(accept, ","), func(text string) bool {
		mediaType, _, err := mime.ParseMediaType(text)
		return err != nil || mediaType != runtime.ContentTypeJSON
	})
	if len(types) == 0 {
		return runtime.ContentTypeJSON
	}
	return strings.Join(types, ",")
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

// isList reports whether a response contains all objects, as the initial events of a watch do.
func isList(request *http.Request) bool {
	return !isWatch(request) || request.URL.Query().Get("sendInitialEvents") == "true"
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

// limitedBody ends when it has read too much.
type limitedBody struct {
	io.ReadCloser
	cancel   context.CancelFunc
	mu       *sync.Mutex // of used
	used     *usage
	limit    int // of used.listed
	estimate estimate
	// listing is true for lists and for initial events, of which last is the end of the text.
	listing, watching bool
	last              []byte
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if limit := b.count(p[:n]); limit != nil {
		return 0, limit
	}
	return n, err
}

// count returns errTooLong if a list is too long, and io.EOF after maxEvents.
func (b *limitedBody) count(text []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := b.estimate.add(text)
	if !b.listing {
		if b.used.events += size; b.used.events > maxEvents {
			return io.EOF
		}
		return nil
	}
	if b.used.listed += size; b.used.listed > b.limit {
		return errTooLong
	}
	if b.watching {
		b.endInitialEvents(text)
	}
	return nil
}

// endInitialEvents begins to count events at the bookmark that ends initial events.
func (b *limitedBody) endInitialEvents(text []byte) {
	const annotation = metav1.InitialEventsAnnotationKey
	if text = append(b.last, text...); bytes.Contains(text, []byte(annotation)) {
		b.listing = false
	}
	b.last = bytes.Clone(text[max(0, len(text)-len(annotation)):])
}

// Close implements io.Closer.
func (b *limitedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
