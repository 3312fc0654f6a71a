package guest

import (
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxHeld limits the estimated memory of all responses that the operator reads, or of which a
	// cache keeps objects, in bytes. What a cache already keeps of the resource that is being listed
	// does not count, or a large cache could never be listed again. So the sum can be 2*maxHeld.
	maxHeld = 64 << 20
	// maxObject limits the estimated memory of a single object while it is decoded, in bytes. etcd
	// stores 1.5 MiB of each. maxHeld does not limit it: callers decode the object after they have
	// closed the response.
	maxObject = 4 << 20
	// maxShare is what each resource can use even if the others have used maxHeld. So a server that
	// exhausts maxHeld affects only its own resource.
	maxShare = 512 << 10
)

// budget is the memory that all responses use together.
type budget struct {
	mu     sync.Mutex
	total  int
	shares map[string]*share // by path and field selector of lists and watches
}

// share is the memory of one resource: of its last complete list with the events since then, and of
// a list that is being read.
type share struct{ kept, next int }

// account is the part of a share that a response increases.
type account struct {
	budget *budget
	share  *share
	used   *int
	ends   bool // with the response, because no cache keeps its objects
}

// temporary returns an account for a response of which no cache keeps objects.
func (b *budget) temporary() *account {
	s := &share{}
	return &account{b, s, &s.next, true}
}

// open returns the account of the response to a request.
func (b *budget) open(request *http.Request) *account {
	if request.Method != http.MethodGet || !isCollection(request.URL.Path) {
		return b.temporary()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	query := request.URL.Query()
	key := request.URL.Path + "?" + query.Get("fieldSelector")
	if b.shares[key] == nil {
		b.shares[key] = &share{}
	}
	s := b.shares[key]
	switch {
	case isWatch(request) && query.Get("sendInitialEvents") != "true":
		if s.next > 0 { // The list was complete, and has replaced the objects in the cache.
			b.total -= s.kept
			s.kept, s.next = s.next, 0
		}
		return &account{b, s, &s.kept, false}
	case !query.Has("continue"): // The list before failed, or a complete one has replaced the objects.
		b.total -= min(s.kept, s.next)
		s.kept, s.next = max(s.kept, s.next), 0
	}
	return &account{b, s, &s.next, false}
}

// add reports whether there is room for more.
func (a *account) add(cost int) bool {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	*a.used += cost
	a.budget.total += cost
	others := a.budget.total - a.share.kept - a.share.next
	return *a.used <= maxShare || others+*a.used <= maxHeld
}

func (a *account) close() {
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	if a.ends {
		a.budget.total -= *a.used
		*a.used = 0
	}
}

// maxDocument limits the text of a response, or each of its events. Only lists of all objects of a
// resource have no limit of their own, which is 0.
func maxDocument(request *http.Request) int {
	selector := request.URL.Query().Get("fieldSelector")
	isOne := strings.Contains(selector, metav1.ObjectNameField+"=") ||
		request.Method != http.MethodGet || !isCollection(request.URL.Path)
	if !isOne && !isWatch(request) {
		return 0
	}
	return maxObject
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
