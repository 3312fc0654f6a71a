package fault_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/gophercloud/gophercloud/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
)

// The list is that of Linux, on which nodes run; CI compares it with this system.
func TestErrorNumbersHaveALeaf(t *testing.T) {
	t.Parallel()
	for number := syscall.EPERM; number <= syscall.ERFKILL; number++ {
		if text := number.Error(); !strings.HasPrefix(text, "errno ") {
			assert.Check(t, fault.Parse("opening /data: "+text).Leaf != "", text)
		}
	}
}

// request sends a request of gophercloud to a URL.
func request(t *testing.T, url string) error {
	t.Helper()
	client := &gophercloud.ProviderClient{}
	response, err := client.Request(t.Context(), http.MethodPost, url, &gophercloud.RequestOpts{
		OkCodes: []int{http.StatusOK, http.StatusAccepted},
	})
	if response != nil {
		assert.NilError(t, response.Body.Close())
	}
	return err
}

// answering returns gophercloud's error about a service that answers with a status and a body.
func answering(t *testing.T, path string, status int, body string) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return request(t, server.URL+path)
}

func TestAnswersOfOpenStackAreParsed(t *testing.T) {
	t.Parallel()
	const volumes, servers = "/v3/0f1e/volumes", "/v2.1/servers/quota/os-volume_attachments"
	for name, test := range map[string]struct {
		path   string
		status int
		body   string
		want   fault.Answer
	}{
		"quota of Cinder": {
			volumes, 413, `{"overLimit": {"code": 413, "message": "Quota exceeded (HTTP 413) ` +
				`(Request-ID: req-1)", "retryAfter": "0"}}`,
			fault.Answer{
				Service: "volume", Resource: "volumes", Kind: "overLimit",
				Message: "Quota exceeded",
			},
		},
		"message that was cut": {
			servers, 400, `{"badRequest": {"code": 400, "message": "Invalid vol`,
			fault.Answer{
				Service: "compute", Resource: "os-volume_attachments", Kind: "badRequest",
				Message: "Invalid vol",
			},
		},
		"Keystone": {
			"/identity/v3/auth/tokens", 401, `{"error":{"code":401,"message":"No.","title":"Unauthorized"}}`,
			fault.Answer{Service: "identity", Resource: "tokens", Kind: "error", Message: "No."},
		},
		"page of a proxy": {
			"/v2/shares/detail", 503, "<html><head><title>503 Busy</title></head></html>",
			fault.Answer{Service: "share", Resource: "shares", Message: "503 Busy"},
		},
		"unknown path": {
			"/v2/other", 404, `{"message": "Not here.<br /><br />\n\n\n", "code": "404 Not Found"}`,
			fault.Answer{Service: "share", Message: "Not here."},
		},
		"gateway": {
			"/v2/shares", 429, `{"message": "API rate limit exceeded"}`,
			fault.Answer{Service: "share", Resource: "shares", Message: "API rate limit exceeded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := fault.Parse(answering(t, test.path, test.status, test.body).Error())
			assert.Equal(t, got.Leaf, fault.Answered)
			assert.Equal(t, got.Message, test.want.Message)
			test.want.Status, test.want.Method, test.want.URL = test.status, http.MethodPost, got.Answer.URL
			assert.DeepEqual(t, *got.Answer, test.want)
		})
	}
}

func TestErrorsOfLibrariesHaveALeaf(t *testing.T) {
	t.Parallel()
	expired, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-expired.Done()
	waited := wait.PollUntilContextTimeout(t.Context(), 1, 1, false, never)
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	kind := schema.GroupKind{Kind: "PersistentVolumeClaim"}
	invalid := field.ErrorList{field.Invalid(field.NewPath("spec"), "quota", "EOF")}
	for name, test := range map[string]struct {
		err  error
		leaf fault.Leaf
	}{
		"nothing listens":       {request(t, "http://"+closed(t)+"/v3/volumes"), fault.Refused},
		"no such host":          {request(t, "http://quota.invalid/v3/volumes"), fault.Lookup},
		"unknown authority":     {request(t, untrusted(t).URL+"/v3/volumes"), fault.Certificate},
		"HTTP for HTTPS":        {request(t, "https://"+plain(t)+"/v3"), fault.HTTP},
		"connection that ends":  {request(t, "http://"+ending(t)+"/v3"), fault.Reset},
		"deadline":              {expired.Err(), fault.Deadline},
		"wait":                  {waited, fault.Deadline},
		"catalog":               {gophercloud.ErrEndpointNotFound{}, fault.Client},
		"missing file":          {openError(), fault.System},
		"missing program":       {missingProgram(t), fault.CommandFailed},
		"command":               {exec.CommandContext(t.Context(), "false").Run(), fault.CommandFailed},
		"quoted deadline":       {status.FromContextError(expired.Err()).Err(), fault.Deadline},
		"object":                {kerrors.NewNotFound(claims, "quota"), fault.NotFound},
		"forbidden":             {kerrors.NewForbidden(claims, "a", os.ErrExist), fault.Admission},
		"invalid object":        {kerrors.NewInvalid(kind, "a", invalid), fault.Invalid},
		"object that exists":    {kerrors.NewAlreadyExists(claims, "a"), fault.Exists},
		"conflict":              {kerrors.NewConflict(claims, "a", os.ErrExist), fault.Conflict},
		"driver without socket": {dial(t), fault.System},
		"words":                 {status.Error(codes.Internal, "401: quota"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, fault.Parse(test.err.Error()).Leaf, test.leaf, test.err.Error())
		})
	}
}

// dial returns the error of a call of a driver whose socket does not exist.
func dial(t *testing.T) error {
	t.Helper()
	conn, err := grpc.NewClient("unix:///nowhere/csi.sock",
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	assert.NilError(t, err)
	_, err = csi.NewIdentityClient(conn).Probe(t.Context(), &csi.ProbeRequest{})
	assert.NilError(t, conn.Close())
	return err
}

func never(context.Context) (bool, error) { return false, nil }

func openError() error {
	_, err := os.Open("/nowhere/quota")
	return err
}

// listen returns a listener that closes after the test.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	assert.NilError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func closed(t *testing.T) string {
	t.Helper()
	l := listen(t)
	assert.NilError(t, l.Close())
	return l.Addr().String()
}

// ending returns the address of a server that closes each connection.
func ending(t *testing.T) string {
	t.Helper()
	l := listen(t)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func plain(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func untrusted(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func missingProgram(t *testing.T) error {
	t.Helper()
	return exec.CommandContext(t.Context(), "/nowhere/mount.nfs").Run()
}
