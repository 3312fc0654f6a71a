package lease

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/client-go/rest"
)

const duration = 15 * time.Second

// server answers each request with a status.
type server struct{ status int }

func (s *server) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: s.status, Body: http.NoBody, Request: request}, nil
}

// TestWritesEndWithTheLease freezes a process for longer than its Lease.
func TestWritesEndWithTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost, api := 0, &server{status: http.StatusOK}
		guard := &Guard{Duration: duration, Lost: func() { lost++ }}
		protected := guard.Protect(&rest.Config{}).WrapTransport(api)
		send := func(method, path string) error {
			request, err := http.NewRequestWithContext(t.Context(), method,
				"https://api.example.com/"+path, strings.NewReader("{}"))
			assert.NilError(t, err)
			response, err := protected.RoundTrip(request)
			if err != nil {
				return err
			}
			return response.Body.Close()
		}
		const object, renewal = "api/v1/namespaces/leases/configmaps/a",
			"apis/coordination.k8s.io/v1/namespaces/ns/leases/a-lock"
		allowed := func(when, method, path string) {
			t.Helper()
			assert.Check(t, send(method, path), "%s, %s %s", when, method, path)
			assert.Check(t, is.Equal(lost, 0), when)
		}
		allowed("before it leads", http.MethodPost, object)
		for range 3 {
			allowed("leader", http.MethodPut, renewal)
			time.Sleep(duration - time.Second) //nolint:forbidigo // the time of synctest.
			allowed("leader", http.MethodPut, object)
		}
		api.status = http.StatusConflict // another process has the Lease
		allowed("with a conflict", http.MethodPut, renewal)
		time.Sleep(time.Second) //nolint:forbidigo // the time of synctest.
		allowed("after the Lease", http.MethodGet, object)
		for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete} {
			lost = 0
			assert.Check(t, is.ErrorIs(send(method, object), ErrExpired), "%s after the Lease", method)
			assert.Check(t, is.Equal(lost, 1), "calls of Lost")
			api.status = http.StatusOK // the release of a Lease that has expired
			assert.Check(t, send(http.MethodPut, renewal))
		}
	})
}
