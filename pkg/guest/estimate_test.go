package guest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// accepted returns how many bytes of a response the caller can read.
func accepted(t *testing.T, path, text string) int {
	t.Helper()
	client := &http.Client{Transport: guest.LimitResponses()(transportFunc(
		func(*http.Request) (*http.Response, error) {
			header := http.Header{"Content-Type": []string{"application/json"}}
			body := io.NopCloser(strings.NewReader(text))
			return &http.Response{StatusCode: http.StatusOK, Header: header, Body: body}, nil
		}))}
	response, err := get(t, client, "http://localhost"+path)
	assert.NilError(t, err)
	defer response.Body.Close()
	n, _ := io.Copy(io.Discard, response.Body) // an error if it is too long
	return int(n)
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
				count := accepted(t, "/apis/g/v1/x"+tt.query, text) / len(element)
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
		n := accepted(t, path, string(text))
		assert.Check(t, n >= len(text), "%s: only %d of %d bytes are accepted", path, n, len(text))
	}
}
