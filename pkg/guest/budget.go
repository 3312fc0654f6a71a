package guest

import (
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxHeld limits the estimated memory of all lists that the operator reads, or of which a cache
	// keeps objects, in bytes. What a cache already keeps of the resource that is being listed does
	// not count, or a large cache could not be listed again. So the sum can be 2*maxHeld.
	maxHeld = 64 << 20
	// maxObject limits the estimated memory of a single object or event while it is decoded, in bytes.
	// etcd stores 1.5 MiB of each.
	maxObject = 4 << 20
	// maxShare is what each resource can use even if the others have used maxHeld. So a server that
	// exhausts maxHeld affects only its own resource.
	maxShare = 512 << 10
	// maxEvents limits the events since the last list of a resource, in bytes: their text, because the
	// cache of an informer by name keeps one object, or the estimate if it keeps others.
	maxEvents = 16 << 20
)

// budget is the memory that all lists use together.
type budget struct {
	mu     sync.Mutex
	shares map[string]*share // by path and field selector of lists and watches
}

// share is the memory of one resource, or of a single object.
type share struct {
	kept   int // by the last complete list, or the largest event since then
	next   int // by what is being read
	events int // by the events since the last list; see maxEvents
}

// open returns the share of the response to a request, and false for a watch after maxEvents. The
// budget does not contain the shares of single objects, which no cache keeps.
func (b *budget) open(request *http.Request) (*share, bool) {
	if request.Method != http.MethodGet || !isCollection(request.URL.Path) {
		return &share{}, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	query := request.URL.Query()
	key := request.URL.Path + "?" + query.Get("fieldSelector")
	s := b.shares[key]
	switch {
	case s == nil:
		s = &share{}
		b.shares[key] = s
	case !isList(request):
		s.replace()
		return s, s.events <= maxEvents
	case !query.Has("continue"):
		s.next, s.events = 0, 0
	}
	return s, true
}

// replace is called after a complete list, which has replaced the objects in the cache.
func (s *share) replace() {
	if s.next > 0 {
		s.kept, s.next = s.next, 0
	}
}

// fits reports whether there is room for a share.
func (b *budget) fits(s *share) bool {
	total := 0
	for _, other := range b.shares {
		total += max(other.kept, other.next)
	}
	return total <= maxHeld || max(s.kept, s.next) <= maxShare
}

// isSingle reports whether a response contains one object or, for a watch, versions of one object.
func isSingle(request *http.Request) bool {
	selector := request.URL.Query().Get("fieldSelector")
	return strings.Contains(selector, metav1.ObjectNameField+"=") ||
		request.Method != http.MethodGet || !isCollection(request.URL.Path)
}

// isCollection reports whether a path names a collection: /api/v1/x or /apis/group/version/x, with
// two more elements for a namespace. The path of an object has one more.
func isCollection(path string) bool {
	if _, rest, found := strings.Cut(path, "/apis/"); found {
		return strings.Count(rest, "/")%2 == 0
	}
	_, rest, found := strings.Cut(path, "/api/")
	return found && strings.Count(rest, "/")%2 == 1
}
