package guest

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
)

// Limits of the answers of the API server, in bytes and in JSON values. All are far above real
// sizes. A JSON value takes many times the memory of its text.
const (
	// maxEvent limits one event of a watch.
	maxEvent = 16 << 20
	// maxBytes and maxValues limit an answer, and all pages of a list and the events until the next
	// list together: an informer keeps their objects until then.
	maxBytes  = 64 << 20
	maxValues = 500_000
	// maxNamedBytes is maxBytes for lists and watches of one object.
	maxNamedBytes = 16 << 20
)

var (
	errTooLong    = errors.New("the response of the API server is too long")
	errRedirected = errors.New("the API server redirects the request, which is not allowed: " +
		"check the APIServices")
)

// LimitResponses wraps the transport to the API server of the guest side. It limits responses and
// refuses redirects, which would send the token to another server. The administrator of the guest
// cluster can make the API server forward requests of an API group to any server.
//
// A watch that exceeds its limit ends with an error. The informer then lists the objects again,
// which removes from its cache what the API server does not list.
func LimitResponses(next http.RoundTripper) http.RoundTripper {
	return &limited{next: next, usages: map[string]*usage{}}
}

type limited struct {
	next http.RoundTripper

	mu     sync.Mutex
	usages map[string]*usage // by path and field selector of lists and watches
}

// usage is what the API server has sent about a collection since the operator began to list it.
type usage struct{ bytes, values atomic.Int64 }

// RoundTrip implements http.RoundTripper.
func (l *limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil || response.Body == nil {
		return response, err
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		return nil, errors.Join(errRedirected, response.Body.Close())
	}
	mediaType, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	query := request.URL.Query()
	response.Body = &limitedBody{
		ReadCloser: response.Body,
		usage:      l.usageOf(request.URL.Path, query),
		limit:      limitOf(query),
		framed:     err == nil && mediaType == runtime.ContentTypeProtobuf,
		stream:     response.StatusCode == http.StatusOK && isTrue(query.Get("watch")),
	}
	return response, nil
}

// WrappedRoundTripper returns the transport for client-go.
func (l *limited) WrappedRoundTripper() http.RoundTripper { return l.next }

// usageOf returns the usage to which a response adds: a new one for the first page of a list, and
// for a watch that begins with all objects.
func (l *limited) usageOf(path string, query url.Values) *usage {
	continued := query.Has("continue") || isTrue(query.Get("watch"))
	if !continued && !query.Has("resourceVersion") && !query.Has("limit") {
		return &usage{} // not a list of an informer
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := path + "?" + query.Get("fieldSelector")
	if !continued || isTrue(query.Get("sendInitialEvents")) || l.usages[key] == nil {
		l.usages[key] = &usage{}
	}
	return l.usages[key]
}

func limitOf(query url.Values) int64 {
	if query.Has("fieldSelector") {
		return maxNamedBytes
	}
	return maxBytes
}

func isTrue(value string) bool { return value == "true" || value == "1" }

// limitedBody returns an error when the usage exceeds the limit or maxValues, or one event of a
// stream exceeds maxEvent. In protobuf, which is framed, it counts bytes only; client-go limits the
// length of a frame.
type limitedBody struct {
	io.ReadCloser
	usage                         *usage
	limit                         int64
	event, depth                  int
	framed, stream, text, escaped bool
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	values := 0
	for _, c := range p[:n] {
		if values += b.count(c); b.event > maxEvent {
			return 0, errTooLong
		}
	}
	if b.usage.bytes.Add(int64(n)) > b.limit || b.usage.values.Add(int64(values)) > maxValues {
		return 0, errTooLong
	}
	return n, err
}

// count returns the number of JSON values that begin with a character, and resets the size of the
// event after each JSON object of a stream. It ignores brackets and commas within strings.
func (b *limitedBody) count(c byte) int {
	if b.framed {
		return 0
	}
	if b.stream {
		b.event++
	}
	switch {
	case b.escaped:
		b.escaped = false
	case c == '"':
		b.text = !b.text
	case b.text:
		b.escaped = c == '\\'
	case c == ',':
		return 1
	case c == '{' || c == '[':
		b.depth++
		return 1
	case c == '}' || c == ']':
		if b.depth--; b.depth == 0 {
			b.event = 0
		}
	}
	return 0
}
