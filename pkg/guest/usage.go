package guest

import (
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxList limits the estimated memory of a list with all its pages, in bytes.
	maxList = 64 << 20
	// maxObject limits the estimated memory of an object, or of a list of one object by its name, in
	// bytes. etcd stores 1.5 MiB of each.
	maxObject = 4 << 20
	// maxEvents limits the estimated memory of the events since the last list of a resource, in bytes.
	// A cache may keep the objects of all of them.
	maxEvents = 4 << 20
)

// usage is the estimated memory of the responses about a resource.
type usage struct {
	listed int // by the last list
	events int // by the events since then
}

// usages contains the usage of each resource that is listed and watched.
type usages struct {
	mu         sync.Mutex
	byResource map[string]*usage // by path and field selector
}

// of returns the usage that the response to a request adds to, and whether a watch may begin.
func (u *usages) of(request *http.Request) (used *usage, ok bool) {
	if request.Method != http.MethodGet || !isCollection(request.URL.Path) {
		return &usage{}, true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	query := request.URL.Query()
	key := request.URL.Path + "?" + query.Get("fieldSelector")
	if used = u.byResource[key]; used == nil {
		used = &usage{}
		u.byResource[key] = used
	}
	if isList(request) && !query.Has("continue") {
		*used = usage{}
	}
	return used, isList(request) || used.events <= maxEvents
}

// limitOf returns the limit of usage.listed for a request.
func limitOf(request *http.Request) int {
	selector := request.URL.Query().Get("fieldSelector")
	if strings.Contains(selector, metav1.ObjectNameField+"=") ||
		request.Method != http.MethodGet || !isCollection(request.URL.Path) {
		return maxObject
	}
	return maxList
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
