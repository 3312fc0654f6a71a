package guest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// updates is the number of updates in a minute by namespace: 20,000 in a day are many.
func updates() map[string]int { return map[string]int{"busy": 14, "idle": 1, "endless": 1} }

// quiet is an API server that contains a ConfigMap in each namespace. In each minute it sends a
// bookmark and updates to each watch. In the namespace "endless" it sends new objects of 1 MiB
// without a pause until a client lists again.
type quiet struct {
	mu       sync.Mutex
	versions int
	lists    map[string]int // by namespace
}

// event returns an event about a ConfigMap with a text.
func (q *quiet) event(kind, namespace, name, text string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.versions++
	return fmt.Sprintf(`{"type":%q,"object":{"kind":"ConfigMap","apiVersion":"v1","metadata":`+
		`{"name":%q,"namespace":%q,"resourceVersion":"%d"},"data":{"a":%q}}}`+"\n",
		kind, name, namespace, q.versions, text)
}

// listed adds to the number of lists of a namespace, and returns it.
func (q *quiet) listed(namespace string, more int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lists[namespace] += more
	return q.lists[namespace]
}

// RoundTrip implements http.RoundTripper.
func (q *quiet) RoundTrip(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(q.answer(r, writer)) }() // never returns an error
	header := http.Header{"Content-Type": []string{"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: reader, Request: r}, nil
}

// answer writes until the watch or its client ends.
func (q *quiet) answer(r *http.Request, w io.Writer) (err error) {
	query, namespace := r.URL.Query(), strings.Split(r.URL.Path, "/")[4]
	send := func(text string) {
		if err == nil {
			_, err = io.WriteString(w, text)
		}
	}
	if query.Get("sendInitialEvents") == "true" {
		q.listed(namespace, 1)
		send(q.event("ADDED", namespace, "own", ""))
		send(bookmark(initialEventsEnd))
	}
	for i := 0; err == nil && namespace == "endless" && q.listed(namespace, 0) == 1; i++ {
		send(q.event("ADDED", namespace, strconv.Itoa(i), strings.Repeat("x", mebibyte)))
	}
	seconds, _ := strconv.Atoi(query.Get("timeoutSeconds")) // 0 ends the watch
	end := time.After(time.Duration(seconds) * time.Second)
	for err == nil {
		select {
		case <-time.After(time.Minute):
			for range updates()[namespace] {
				send(q.event("MODIFIED", namespace, "own", strings.Repeat("x", 1000)))
			}
			send(bookmark("{}"))
		case <-r.Context().Done():
			return r.Context().Err()
		case <-end:
			return nil
		}
	}
	return err
}

// bookmark returns a bookmark as long as those of API servers.
func bookmark(annotations string) string {
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1",`+
		`"metadata":{"resourceVersion":"1234567","annotations":%s}}}`+"\n", annotations)
}

// A list removes the objects of an endless watch from the cache.
func TestWatchesOfADayAreListedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &quiet{lists: map[string]int{}}
		config := &rest.Config{Host: "http://localhost", Transport: q, QPS: -1}
		config.Wrap(guest.LimitResponses())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		logger := funcr.New(func(_, args string) {
			if ctx.Err() == nil { // the end of the test interrupts requests
				t.Error(args)
			}
		}, funcr.Options{})
		var running sync.WaitGroup
		for namespace := range updates() {
			informer := newInformer(t, config, namespace)
			running.Go(func() { informer.RunWithContext(klog.NewContext(ctx, logger)) })
			defer func() {
				assert.Check(t, is.DeepEqual([]string{namespace + "/own"}, informer.GetStore().ListKeys()))
			}()
		}
		<-time.After(24 * time.Hour)
		cancel()
		running.Wait()
		assert.Check(t, is.DeepEqual(map[string]int{"busy": 28, "idle": 4, "endless": 5}, q.lists))
	})
}

func newInformer(t *testing.T, config *rest.Config, namespace string) cache.SharedIndexInformer {
	t.Helper()
	kube, err := kubernetes.NewForConfig(config)
	assert.NilError(t, err)
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0,
		informers.WithNamespace(namespace),
		informers.WithTransform(guest.DropUnused),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.name=own"
		}))
	return factory.Core().V1().ConfigMaps().Informer()
}

func TestDropUnusedRemovesContent(t *testing.T) {
	t.Parallel()
	names := metav1.ObjectMeta{Namespace: "n", Name: "r", UID: "u", ResourceVersion: "7"}
	annotated := *names.DeepCopy()
	annotated.Annotations = map[string]string{"a": strings.Repeat("x", 64<<10)}
	managed := *annotated.DeepCopy()
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	for name, tt := range map[string]struct{ given, want any }{
		"a large class": {
			&storagev1.StorageClass{ObjectMeta: managed, Provisioner: "driver"},
			&storagev1.StorageClass{ObjectMeta: annotated, Provisioner: "driver"},
		},
		"metadata": {
			&metav1.PartialObjectMetadata{ObjectMeta: annotated},
			&metav1.PartialObjectMetadata{ObjectMeta: names},
		},
		"what is no API": {"tombstone", "tombstone"},
	} {
		got, err := guest.DropUnused(tt.given)
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(tt.want, got), name)
	}
}
