package guest_test

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

func TestDropUnusedRemovesContent(t *testing.T) {
	t.Parallel()
	class := func(provisioner, parameter string,
		annotations map[string]string,
	) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: "c", UID: "u", ResourceVersion: "7", Annotations: annotations,
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
			},
			Provisioner: provisioner, Parameters: map[string]string{"type": parameter},
		}
	}
	bare := func(provisioner string, annotations map[string]string) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: "c", UID: "u", ResourceVersion: "7",
				Annotations: annotations,
			}, Provisioner: provisioner,
		}
	}
	own := class("driver", "fast", map[string]string{"a": "b"})
	own.ManagedFields = nil
	isDefault := map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	both := map[string]string{"storageclass.kubernetes.io/is-default-class": "true", "a": "b"}
	for name, tt := range map[string]struct{ given, want any }{
		"own class":   {class("driver", "fast", map[string]string{"a": "b"}), own},
		"another's":   {class("other", "fast", map[string]string{"a": "b"}), bare("other", nil)},
		"the default": {class("other", "fast", both), bare("other", isDefault)},
		"a big own":   {class("driver", strings.Repeat("x", 5000), both), bare("driver", isDefault)},
		"a ClusterRole": {
			&rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: "r", Annotations: both},
				Rules:      []rbacv1.PolicyRule{{}},
			},
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}},
		},
		"what is no API": {"tombstone", "tombstone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slim := guest.DropUnused("driver")
			got, err := slim(tt.given)
			if err != nil {
				t.Fatal(err)
			}
			again, err := slim(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tt.want, again); diff != "" {
				t.Errorf("cached (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyObjectKeepsNamesOfOthers(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 100)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: "own", Namespace: "n",
		ResourceVersion: "7", Annotations: map[string]string{"a": text},
	}}
	other := secret.DeepCopy()
	other.Name, other.Data = "other", map[string][]byte{"a": []byte(text)}
	unknown := func(content map[string]any) *unstructured.Unstructured {
		content["apiVersion"], content["kind"] = "v1", "X"
		content["metadata"] = map[string]any{"name": "other", "namespace": "n", "resourceVersion": "7"}
		return &unstructured.Unstructured{Object: content}
	}
	for name, tt := range map[string]struct{ given, want any }{
		"the object": {secret, secret},
		"another": {other, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name:      "other",
			Namespace: "n", ResourceVersion: "7",
		}}},
		"unstructured":   {unknown(map[string]any{"spec": text}), unknown(map[string]any{})},
		"what is no API": {"tombstone", "tombstone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := guest.OnlyObject("own", guest.DropUnused(""))(tt.given)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" {
				t.Errorf("cached (-want +got):\n%s", diff)
			}
		})
	}
}

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
		"events of few values": {query: watch, mebibyte: "[" + strings.Repeat("{},", 200_000) +
			"0]", mebibytes: 3},
		"a text of many commas": {mebibyte: `"` + strings.Repeat(",", 1<<20) + `"`, mebibytes: 1},
		"frames that look like values": {
			contentType: protobuf, mebibyte: strings.Repeat("{", 1<<20),
			mebibytes: 1,
		},
		"many events": {query: watch, mebibyte: event, mebibytes: 70},
		"many frames": {
			query: watch, contentType: protobuf, mebibyte: text,
			mebibytes: 70,
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
			response, err := get(t, server, tt.query)
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
	response, err := get(t, server, "")
	if err == nil {
		response.Body.Close()
		t.Error("a redirect is no error")
	}
	if followed.Load() {
		t.Error("the client followed a redirect")
	}
}

func get(t *testing.T, server *httptest.Server, query string) (*http.Response, error) {
	t.Helper()
	client := server.Client()
	client.Transport = guest.LimitResponses(client.Transport)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client.Do(request)
}
