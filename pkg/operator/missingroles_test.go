package operator

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
)

// slowCreations is an API server without objects, in which a creation takes as long as that of a
// role. Fake clients of client-go handle one request after the other.
type slowCreations struct {
	mu    sync.Mutex
	paths []string // of creations
}

const creation = 100 * time.Millisecond

func (s *slowCreations) RoundTrip(request *http.Request) (*http.Response, error) {
	response := &http.Response{
		StatusCode: http.StatusNotFound, Request: request, Body: io.NopCloser(strings.NewReader(
			`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound"}`)),
		Header: http.Header{"Content-Type": {"application/json"}},
	}
	if request.Method != http.MethodPost {
		return response, nil
	}
	s.mu.Lock()
	s.paths = append(s.paths, request.URL.Path)
	s.mu.Unlock()
	time.Sleep(creation) //nolint:forbidigo // the time of synctest.
	response.StatusCode, response.Body = http.StatusCreated, request.Body
	return response, nil
}

func TestMissingRolesAreCreatedAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := &slowCreations{}
		kube, err := kubernetes.NewForConfig(&rest.Config{
			Transport: api, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		})
		assert.NilError(t, err)
		m := &missingRoles{
			clients: (&resourceapply.ClientHolder{}).WithKubernetes(kube),
			events:  process().Events,
			read: func(asset string) ([]byte, error) {
				kind, name, _ := strings.Cut(asset, "/")
				return []byte("apiVersion: rbac.authorization.k8s.io/v1\nkind: " + kind +
					"\nmetadata: {namespace: ns, name: " + name + "}\n"), nil
			},
			roles: map[string]func() bool{}, bindings: map[string]func() bool{},
		}
		for _, kind := range []string{"Role", "RoleBinding", "Service"} {
			for _, name := range []string{"a", "b", "old"} {
				m.add(kind, kind+"/"+name, func() bool { return name == "old" })
			}
		}
		synced := 0
		run := m.before(func(context.Context, factory.SyncContext) error {
			synced++
			return nil
		})
		began := time.Now()
		for range 2 {
			assert.NilError(t, run(t.Context(), nil))
		}
		assert.Check(t, is.Equal(time.Since(began), 2*creation))
		assert.Check(t, is.Equal(synced, 2))
		slices.Sort(api.paths[:2])
		slices.Sort(api.paths[2:])
		const folder = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/"
		assert.Check(t, is.DeepEqual([]string{
			folder + "roles", folder + "roles", folder + "rolebindings", folder + "rolebindings",
		}, api.paths), "creations")
	})
}
