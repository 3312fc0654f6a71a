package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"k8s.io/apimachinery/pkg/util/wait"
)

// newClient is a function of gophercloud that makes a client of a service.
type newClient func(
	*gophercloud.ProviderClient, gophercloud.EndpointOpts,
) (*gophercloud.ServiceClient, error)

// clientOf logs in and returns a client of a service with a microversion.
func clientOf(
	ctx context.Context, t *testing.T, cloud *Simulator, create newClient, version string,
) *gophercloud.ServiceClient {
	t.Helper()
	provider, endpoint, err := login(ctx, t, cloud, Clouds{})
	must(t, err)
	client, err := create(provider, endpoint)
	must(t, err)
	client.Microversion = version
	return client
}

// eventually waits until a function returns the wanted value.
func eventually[T comparable](ctx context.Context, t *testing.T, want T, get func() (T, error)) {
	t.Helper()
	var got T
	err := wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true,
		func(context.Context) (bool, error) {
			var err error
			got, err = get()
			return got == want, err
		})
	if err != nil {
		t.Fatalf("got %v, want %v: %v", got, want, err)
	}
}

// refused fails the test unless the error is an answer with that status and message.
func refused(t *testing.T, err error, status int, message string) {
	t.Helper()
	var response gophercloud.ErrUnexpectedResponseCode
	if !gophercloud.ResponseCodeIs(err, status) {
		t.Errorf("got %v, want status %d", err, status)
		return
	}
	if !errors.As(err, &response) {
		t.Errorf("%v is no answer", err)
		return
	}
	var body map[string]struct{ Message string }
	must(t, json.Unmarshal(response.Body, &body))
	for _, content := range body {
		if content.Message != message {
			t.Errorf("got the message %q, want %q", content.Message, message)
		}
	}
}

// raw sends a GET with the client's token and microversion, and returns status and body.
func raw(
	ctx context.Context, t *testing.T, client *gophercloud.ServiceClient, path string,
) (int, map[string]any) {
	t.Helper()
	response, err := client.Get(ctx, client.ServiceURL(path), nil, &gophercloud.RequestOpts{
		OkCodes: []int{200, 202, 300, 404, 406}, KeepResponseBody: true,
	})
	must(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	must(t, err)
	var body map[string]any
	must(t, json.Unmarshal(content, &body))
	return response.StatusCode, body
}

// fields returns the sorted names of the fields of an object in a body.
func fields(t *testing.T, body map[string]any, object string) []string {
	t.Helper()
	found, ok := body[object].(map[string]any)
	if !ok {
		t.Fatalf("there is no %s in %v", object, body)
	}
	return slices.Sorted(maps.Keys(found))
}

func TestVersionDocumentsNameMicroversions(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	tests := map[Service]struct {
		make         newClient
		id, min, max string
	}{
		Volume:  {openstack.NewBlockStorageV3, "v3.0", "3.0", "3.70"},
		Share:   {openstack.NewSharedFileSystemV2, "v2.0", "2.0", "2.73"},
		Compute: {openstack.NewComputeV2, "v2.1", "2.1", "2.93"},
	}
	for service, test := range tests {
		t.Run(string(service), func(t *testing.T) {
			t.Parallel()
			status, body := raw(ctx, t, clientOf(ctx, t, cloud, test.make, ""), "")
			if status != http.StatusOK {
				t.Errorf("got status %d", status)
			}
			document, _ := body["version"].(map[string]any)
			if list, ok := body["versions"].([]any); ok {
				document = list[0].(map[string]any)
			}
			want := []any{test.id, test.min, test.max, "CURRENT"}
			got := []any{document["id"], document["min_version"], document["version"], document["status"]}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMicroversionsOutsideTheRangeAreRefused(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	tests := map[Service]struct {
		make          newClient
		version, path string
		message       string
	}{
		Volume: {
			openstack.NewBlockStorageV3, "3.99", "volumes",
			"Version 3.99 is not supported by the API. Minimum is 3.0 and maximum is 3.70.",
		},
		Share: {
			openstack.NewSharedFileSystemV2, "2.99", "shares",
			"Version 2.99 is not supported by the API. Minimum is 2.0 and maximum is 2.73.",
		},
		Compute: {
			openstack.NewComputeV2, "2.999", "servers",
			"Version 2.999 is not supported by the API. Minimum is 2.1 and maximum is 2.93.",
		},
	}
	for service, test := range tests {
		t.Run(string(service), func(t *testing.T) {
			t.Parallel()
			client := clientOf(ctx, t, cloud, test.make, test.version)
			status, body := raw(ctx, t, client, test.path)
			want := map[string]any{
				"computeFault": map[string]any{"code": 406.0, "message": test.message},
			}
			if diff := cmp.Diff(want, body); diff != "" || status != http.StatusNotAcceptable {
				t.Errorf("status %d, body (-want +got):\n%s", status, diff)
			}
		})
	}
}

func TestPathsMayContainTheProject(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("a")})
	client := clientOf(ctx, t, cloud, openstack.NewSharedFileSystemV2, "2.37")
	client.Endpoint += cloud.Credentials().ProjectID + "/"
	names, err := typeNames(ctx, client)
	must(t, err)
	if diff := cmp.Diff([]string{"a"}, names); diff != "" {
		t.Errorf("share types (-want +got):\n%s", diff)
	}
}
