package guest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

const (
	listPath = "/api/v1/namespaces/n/configmaps"
	mebibyte = 1 << 20
	// initialEventsEnd is in the bookmark that ends initial events.
	initialEventsEnd = `{"k8s.io/initial-events-end":"true"}`
)

// values returns a JSON text that needs 1 MiB of memory: an object with 16,000 values of 65 bytes.
func values() string { return "{" + strings.Repeat(",", 16_000) + "}" }

func TestResponsesAreLimited(t *testing.T) {
	t.Parallel()
	const watch, initial = "?watch=true", "?watch=true&sendInitialEvents=true"
	text := strings.Repeat("x", mebibyte)
	for name, tt := range map[string]struct {
		query, contentType, start, part string
		parts                           int
		refused, tooLong                bool
		header                          http.Header
	}{
		"a list":                     {part: text, parts: 60},
		"a long list":                {part: text, parts: 66, tooLong: true},
		"a list of many values":      {part: values(), parts: 60},
		"a list of too many values":  {part: values(), parts: 66, tooLong: true},
		"a text of many brackets":    {start: `"`, part: strings.Repeat("{[,", mebibyte/3), parts: 20},
		"a text with escaped quotes": {start: `"`, part: strings.Repeat(`\"{`, mebibyte/3), parts: 20},
		"events":                     {query: watch, part: values(), parts: 66},
		"initial events":             {query: initial, part: values(), parts: 60},
		"too many initial events":    {query: initial, part: values(), parts: 66, tooLong: true},
		"a list with the annotation of a bookmark": {
			start: initialEventsEnd, part: values(), parts: 66, tooLong: true,
		},
		"events after initial ones": {query: initial, start: initialEventsEnd, part: values(), parts: 66},
		"parameters of JSON":        {contentType: "application/json;stream=watch", part: "{}", parts: 1},
		"YAML":                      {contentType: "application/yaml", part: "a: b", refused: true},
		"protobuf":                  {contentType: "application/vnd.kubernetes.protobuf", refused: true},
		"no type":                   {contentType: ";", refused: true},
		"a long header": {
			header:  http.Header{"Warning": slices.Repeat([]string{strings.Repeat("x", 100)}, 1000)},
			refused: true,
		},
		"a redirect": {header: http.Header{"Location": []string{"/elsewhere"}}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				assert.Check(t, is.Equal(r.Header.Get("Accept"), "application/json"), "the request accepts")
				maps.Copy(w.Header(), tt.header)
				w.Header().Set("Content-Type", cmp.Or(tt.contentType, "application/json"))
				if tt.header.Get("Location") != "" && r.URL.Path == listPath {
					w.WriteHeader(http.StatusTemporaryRedirect)
				}
				_, err := io.WriteString(w, tt.start)
				for i := 0; i < tt.parts && err == nil; i++ { // the client disconnects
					_, err = io.WriteString(w, tt.part)
				}
			})
			response, err := get(t, client, url+listPath+tt.query)
			assert.Assert(t, (err != nil) == tt.refused, "the request returned %v", err)
			if err != nil {
				return
			}
			defer response.Body.Close()
			_, err = io.Copy(io.Discard, response.Body)
			assert.Check(t, (err != nil) == tt.tooLong && !errors.Is(err, io.ErrUnexpectedEOF),
				"reading returned %v", err)
		})
	}
}

// The parameter size of a request is the memory that the response needs, in MiB.
func TestPagesAndObjectsAreLimited(t *testing.T) {
	t.Parallel()
	const list, object = "/apis/g/v/x", "/apis/g/v/x/one"
	const first, next = "?limit=500", "?limit=500&continue=x"
	const byName = "?fieldSelector=metadata.name%3Dx"
	type step struct {
		path, query string
		size        int
		tooLong     bool
	}
	for name, steps := range map[string][]step{
		"pages": {
			{list, first, 30, false},
			{list, next, 30, false},
			{list, next, 30, true},
			{list, first, 30, false},
		},
		"objects":            {{object, "", 3, false}, {object, "", 3, false}, {object, "", 5, true}},
		"lists of an object": {{list, byName, 3, false}, {list, byName, 5, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				size, err := strconv.Atoi(r.URL.Query().Get("size"))
				assert.Check(t, err)
				_, _ = io.WriteString(w, "{}"+strings.Repeat(values(), size)) // the client may disconnect
			})
			for i, s := range steps {
				address := fmt.Sprintf("%s%s%s&size=%d", url, s.path, cmp.Or(s.query, "?"), s.size)
				_, _, err := fetch(t, client, address)
				assert.Check(t, (err != nil) == s.tooLong, "step %d: reading returned %v", i, err)
			}
		})
	}
}

func TestErrorsKeepTheirStatus(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"application/json", "application/yaml", "text/html"} {
		client, url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.Header().Set("Retry-After", "2000000000")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, strings.Repeat("x", mebibyte)) // the client may disconnect
		})
		response, err := get(t, client, url+listPath)
		assert.NilError(t, err)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		assert.Check(t, err == nil && len(body) == 64<<10, "got %d bytes and %v", len(body), err)
		assert.Check(t, is.Equal(response.StatusCode, http.StatusServiceUnavailable))
		got := response.Header.Get("Content-Type")
		assert.Check(t, got != "application/yaml", "client-go would decode %s", got)
		assert.Check(t, is.Equal(response.Header.Get("Retry-After"), "30"))
	}
}

// Accept asks for metadata as JSON, and an API server may send whole objects nevertheless.
func TestMetadataIsReadFromWholeObjects(t *testing.T) {
	t.Parallel()
	_, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		const want = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
		assert.Check(t, is.Equal(r.Header.Get("Accept"), want), "the request accepts")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"VolumeSnapshotList",`+
			`"apiVersion":"snapshot.storage.k8s.io/v1",`+
			`"items":[{"metadata":{"name":"a","finalizers":["b"]},"spec":{"source":{}}}]}`)
	})
	config := &rest.Config{Host: url}
	config.Wrap(guest.LimitResponses())
	client, err := metadata.NewForConfig(config)
	assert.NilError(t, err)
	resource := schema.GroupVersionResource{
		Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots",
	}
	list, err := client.Resource(resource).List(t.Context(), metav1.ListOptions{})
	assert.NilError(t, err)
	assert.Assert(t, is.Len(list.Items, 1))
	assert.Check(t, is.DeepEqual(metav1.ObjectMeta{Name: "a", Finalizers: []string{"b"}},
		list.Items[0].ObjectMeta))
}

// transportFunc is a server without a network.
type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering returns a limited client whose requests return a JSON text.
func answering(text string) *http.Client {
	return &http.Client{Transport: guest.LimitResponses()(transportFunc(
		func(*http.Request) (*http.Response, error) {
			header := http.Header{"Content-Type": []string{"application/json"}}
			body := io.NopCloser(strings.NewReader(text))
			return &http.Response{StatusCode: http.StatusOK, Header: header, Body: body}, nil
		}))}
}

func TestRequestsTimeOut(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{
		"": time.Minute, "?watch=true": 15 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			client := &http.Client{Transport: guest.LimitResponses()(transportFunc(
				func(r *http.Request) (*http.Response, error) {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}))}
			began := time.Now()
			response, err := get(t, client, "http://localhost/"+query)
			if err == nil {
				response.Body.Close()
			}
			assert.Check(t, is.ErrorIs(err, context.DeadlineExceeded), query)
			assert.Check(t, is.Equal(time.Since(began), want), query)
		})
	}
}

func TestRequestsHaveALimitedRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, began := answering(""), time.Now()
		for range 600 {
			_, _, err := fetch(t, client, "http://localhost/")
			assert.NilError(t, err)
		}
		took := time.Since(began)
		assert.Check(t, took >= time.Second && took <= 3*time.Second, "600 requests took %v", took)
	})
}

// After 4 MiB a watch ends without an error, and the next one returns 410 Gone until a list.
func TestEventsAreLimited(t *testing.T) {
	t.Parallel()
	const list, watch, watchList = "", "?watch=true", "?watch=true&sendInitialEvents=true"
	client, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, initialEventsEnd)
		for i := 0; err == nil && i < 20 && r.URL.Query().Has("watch"); i++ {
			_, err = io.WriteString(w, values()) // the client disconnects
		}
	})
	for i, step := range []struct {
		query  string
		status int
	}{
		{list, 200},
		{watch, 200},
		{watch, 410},
		{watch, 410},
		{list, 200},
		{watch, 200},
		{watch, 410},
		{watchList, 200},
		{watch, 410},
		{list, 200},
		{watch, 200},
	} {
		status, n, err := fetch(t, client, url+listPath+step.query)
		assert.Check(t, err == nil && n <= 5*len(values()) && status == step.status,
			"step %d: got status %d, %d bytes, %v", i, status, n, err)
	}
}

// serve starts a server and returns a limited client and the address of the server.
func serve(t *testing.T, handler http.HandlerFunc) (*http.Client, string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client := server.Client()
	client.Transport = guest.LimitResponses()(client.Transport)
	return client, server.URL
}

func get(t *testing.T, client *http.Client, url string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	assert.NilError(t, err)
	return client.Do(request)
}

// fetch reads a response, and returns its status and the number of bytes until the end or an error.
func fetch(t *testing.T, client *http.Client, url string) (status, length int, err error) {
	t.Helper()
	response, err := get(t, client, url)
	assert.NilError(t, err)
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	return response.StatusCode, int(n), err
}

// TestEstimateCoversDecodedLists sends the shortest texts of the largest types. A decoded slice
// reserves a quarter more, and client-go copies each object that it lists.
func TestEstimateCoversDecodedLists(t *testing.T) {
	t.Parallel()
	const objects, spec, event = `{"items":[`, `{"items":[{"spec":{"template":{"spec":{"containers":[`,
		`{"type":"ADDED","object":{"spec":{"template":{"spec":{"containers":[`
	const all, byName, watch = "", "?fieldSelector=metadata.name%3Dx", "?watch=true"
	const total, single = 64 * mebibyte, 4 * mebibyte
	daemonSet, class, job := appsv1.DaemonSet{}, storagev1.StorageClass{}, batchv1.CronJob{}
	container, schema := corev1.Container{}, apiextensionsv1.JSONSchemaProps{}
	for name, tt := range map[string]struct {
		query, start  string
		element       any
		copies, limit int
	}{
		"DaemonSets":               {all, objects, daemonSet, 1, total},
		"DaemonSets by name":       {byName, objects, daemonSet, 1, single},
		"StorageClasses":           {all, objects, class, 1, total},
		"StorageClasses by name":   {byName, objects, class, 1, single},
		"CronJobs":                 {all, objects, job, 0, total},
		"containers of a list":     {all, spec, container, 0, total},
		"containers by name":       {byName, spec, container, 0, single},
		"containers of an event":   {watch, event, container, 0, single},
		"schemas of a list":        {all, `{"items":[{"a":{"oneOf":[`, schema, 0, total},
		"schemas of a single CRD":  {byName, `{"items":[{"a":{"oneOf":[`, schema, 0, single},
		"schemas of a watched CRD": {watch, `{"object":{"a":{"oneOf":[`, schema, 0, single},
	} {
		for _, element := range []string{"{},", "null,", `"",`, "[],"} {
			t.Run(name+" as "+element, func(t *testing.T) {
				t.Parallel()
				size := int(reflect.TypeOf(tt.element).Size())
				text := tt.start + strings.Repeat(element, 2*tt.limit/size)
				// an error if the text is too long
				_, read, _ := fetch(t, answering(text), "http://localhost/apis/g/v1/x"+tt.query)
				count := read / len(element)
				needed := count*size*5/4 + count*size*tt.copies
				assert.Check(t, needed <= tt.limit, "%d elements need %d bytes", count, needed)
			})
		}
	}
}

func TestLargeGuestsFit(t *testing.T) {
	t.Parallel()
	fields := metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:a":{}}},` +
		`"f:parameters":{".":{},"f:type":{},"f:b":{}},"f:provisioner":{},"f:reclaimPolicy":{}}`)
	meta := metav1.ObjectMeta{
		Name: strings.Repeat("n", 60), Annotations: map[string]string{"a": strings.Repeat("x", 500)},
		ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: fields}, {FieldsV1: fields}},
	}
	class := storagev1.StorageClass{
		ObjectMeta: meta, Parameters: map[string]string{"type": "t", "b": "c"},
		MountOptions: []string{"a", "b"},
	}
	large := map[string]string{"a": strings.Repeat("x\n", 400<<10)}
	config := corev1.ConfigMap{ObjectMeta: meta, Data: large}
	const classes, configs = "/apis/storage.k8s.io/v1/storageclasses", listPath
	for path, list := range map[string]any{
		classes: map[string]any{"items": slices.Repeat([]any{class}, 5000)},
		configs + "?fieldSelector=metadata.name%3Dx": map[string]any{"items": []any{config}},
		configs + "/x": config,
		configs + "?watch=true&fieldSelector=metadata.name%3Dx": map[string]any{"object": config},
	} {
		text, err := json.Marshal(list)
		assert.NilError(t, err)
		_, n, err := fetch(t, answering(string(text)), "http://localhost"+path)
		assert.Check(t, n >= len(text), "%s: only %d of %d bytes are accepted, %v", path, n, len(text),
			err)
	}
}
