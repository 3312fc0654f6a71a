package guest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

func TestResponsesAreLimited(t *testing.T) {
	t.Parallel()
	const watch, protobuf = "?watch=true", "application/vnd.kubernetes.protobuf;stream=watch"
	text := strings.Repeat("x", 1<<20)
	event := `{"a":["}\\\"` + text + `"]}` + "\n"
	for name, tt := range map[string]struct {
		query, contentType, start, mebibyte string
		status, mebibytes                   int
		tooLong                             bool
	}{
		"an answer":     {mebibyte: text, mebibytes: 63},
		"a long answer": {mebibyte: event, mebibytes: 66, tooLong: true},
		"an event":      {query: watch, start: "{", mebibyte: text, mebibytes: 15},
		"a long event": {
			query: watch, start: "{", mebibyte: text, mebibytes: 17,
			tooLong: true,
		},
		"a long event, asked with 1": {
			query: "?watch=1", start: "{", mebibyte: text, mebibytes: 17,
			tooLong: true,
		},
		"a long event of many lines": {
			query: watch, start: "[", mebibyte: event + ",", mebibytes: 17,
			tooLong: true,
		},
		"a long text with brackets": {
			query: watch, start: `{"`, mebibyte: "{}" + text + "\n",
			mebibytes: 17, tooLong: true,
		},
		"an answer of many values": {
			mebibyte:  "[" + strings.Repeat("{},", 250_001) + "0]",
			mebibytes: 1, tooLong: true,
		},
		"an event of many values": {query: watch, mebibyte: "[" + strings.Repeat("{},", 250_001) +
			"0]", mebibytes: 1, tooLong: true},
		"events of few values": {
			query: watch, mebibyte: "[" + strings.Repeat("{},", 50_000) + "0]", mebibytes: 4,
		},
		"a text of many commas": {mebibyte: `"` + strings.Repeat(",", 1<<20) + `"`, mebibytes: 1},
		"frames that look like values": {
			contentType: protobuf, mebibyte: strings.Repeat("{", 1<<20),
			mebibytes: 1,
		},
		"events of many values": {
			query: watch, mebibyte: "[" + strings.Repeat("{},", 200_000) + "0]", mebibytes: 3,
			tooLong: true,
		},
		"many events":     {query: watch, mebibyte: event, mebibytes: 60},
		"too many events": {query: watch, mebibyte: event, mebibytes: 70, tooLong: true},
		"many frames": {
			query: watch, contentType: protobuf, mebibyte: text,
			mebibytes: 60,
		},
		"too many frames": {
			query: watch, contentType: protobuf, mebibyte: text,
			mebibytes: 70, tooLong: true,
		},
		"a long list of one object": {
			query: "?fieldSelector=metadata.name%3Da", mebibyte: event, mebibytes: 20,
			tooLong: true,
		},
		"an error instead of events": {
			query: watch, status: 500, mebibyte: event, mebibytes: 66,
			tooLong: true,
		},
		"an error instead of frames": {
			query: watch, status: 500, contentType: protobuf, mebibyte: text,
			mebibytes: 66, tooLong: true,
		},
		"a long answer that is framed": {
			contentType: protobuf, mebibyte: text, mebibytes: 66,
			tooLong: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", cmp.Or(tt.contentType, "application/json"))
				w.WriteHeader(cmp.Or(tt.status, http.StatusOK))
				_, err := io.WriteString(w, tt.start)
				for i := 0; i < tt.mebibytes && err == nil; i++ { // the client disconnects
					_, err = io.WriteString(w, tt.mebibyte)
				}
			}))
			defer server.Close()
			response, err := get(t, limitedClient(server), server.URL+tt.query)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			_, err = io.Copy(io.Discard, response.Body)
			if tooLong := err != nil; tooLong != tt.tooLong || errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("reading returned %v, want an error: %v", err, tt.tooLong)
			}
		})
	}
}

func TestRedirectsAreRefused(t *testing.T) {
	t.Parallel()
	var followed atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed.Store(true)
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	response, err := get(t, limitedClient(server), server.URL)
	if err == nil {
		response.Body.Close()
		t.Error("a redirect is no error")
	}
	if followed.Load() {
		t.Error("the client followed a redirect")
	}
}

// TestListAndWatchesAreLimitedTogether checks that a server cannot evade the limit with pages or
// with watches that end early. Each response has two fifths of the allowed values.
func TestListAndWatchesAreLimitedTogether(t *testing.T) {
	t.Parallel()
	const list, watch, watchList = "/a?resourceVersion=0", "/a?watch=true&resourceVersion=7",
		"/a?watch=true&sendInitialEvents=true"
	const first, next = "/a?limit=500", "/a?limit=500&continue=x"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.Repeat("{}", 200_000)) // the client may disconnect
	}))
	defer server.Close()
	client := limitedClient(server)
	for i, step := range []struct {
		query   string
		tooLong bool
	}{
		{list, false},
		{watch, false},
		{watch, true},
		{watch, true},
		{watchList, false},
		{watch, false},
		{"/b?watch=true", false},
		{watch, true},
		{first, false},
		{next, false},
		{next, true},
		{list, false},
	} {
		response, err := get(t, client, server.URL+step.query)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if tooLong := err != nil; tooLong != step.tooLong {
			t.Errorf("step %d, %s: reading returned %v, want an error: %v", i, step.query, err, step.tooLong)
		}
	}
}

// TestEndlessWatchIsListedAgain checks that an informer forgets the objects of an endless watch.
func TestEndlessWatchIsListedAgain(t *testing.T) {
	t.Parallel()
	var lists atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("sendInitialEvents") == "true" {
			lists.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		const end = `{"k8s.io/initial-events-end":"true"}`
		err := errors.Join(writeEvent(w, "ADDED", "own", "{}"), writeEvent(w, "BOOKMARK", "", end))
		other := strings.Repeat("x", 1<<20)
		for i := 0; err == nil && lists.Load() == 1; i++ {
			err = writeEvent(w, "ADDED", other+strconv.Itoa(i), "{}")
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // before the server closes, which waits for its clients
	config := &rest.Config{Host: server.URL}
	config.Wrap(guest.LimitResponses)
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0,
		informers.WithTransform(guest.OnlyObject("own", guest.DropUnused(""))),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = "metadata.name=own"
		}))
	store := factory.Core().V1().ConfigMaps().Informer().GetStore()
	factory.Start(ctx.Done())
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			return lists.Load() > 1 && slices.Equal(store.ListKeys(), []string{"n/own"}), nil
		})
	if err != nil {
		t.Errorf("after %d lists there are %d objects in the cache", lists.Load(), len(store.ListKeys()))
	}
}

// writeEvent writes an event about a ConfigMap.
func writeEvent(w http.ResponseWriter, kind, name, annotations string) error {
	_, err := fmt.Fprintf(w, `{"type":%q,"object":{"kind":"ConfigMap","apiVersion":"v1","metadata":`+
		`{"namespace":"n","name":%q,"resourceVersion":"7","annotations":%s}}}`+"\n",
		kind, name, annotations)
	w.(http.Flusher).Flush()
	return err
}

func limitedClient(server *httptest.Server) *http.Client {
	client := server.Client()
	client.Transport = guest.LimitResponses(client.Transport)
	return client
}

func get(t *testing.T, client *http.Client, url string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(request)
}
