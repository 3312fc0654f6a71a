package operator

import (
	"errors"
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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
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
	syncCtx := factory.NewSyncContext("Test", process().Events) // its queue never ends
	synctest.Test(t, func(t *testing.T) {
		api := &slowCreations{}
		kube, err := kubernetes.NewForConfig(&rest.Config{
			Transport: api, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
		})
		assert.NilError(t, err)
		s := &staticObjects{
			clients: (&resourceapply.ClientHolder{}).WithKubernetes(kube),
			cache:   resourceapply.NewResourceCache(),
			read: func(asset string) ([]byte, error) {
				kind, name, _ := strings.Cut(asset, "/")
				return []byte("apiVersion: rbac.authorization.k8s.io/v1\nkind: " + kind +
					"\nmetadata: {namespace: ns, name: " + name + "}\n"), nil
			},
		}
		for _, kind := range []string{"Role", "RoleBinding"} {
			for _, name := range []string{"a", "b"} {
				s.objects = append(s.objects, staticObject{
					asset: kind + "/" + name, kind: kind,
				})
			}
		}
		began := time.Now()
		assert.NilError(t, s.apply(t.Context(), syncCtx))
		assert.Check(t, is.Equal(time.Since(began), 2*creation))
		slices.Sort(api.paths[:2])
		slices.Sort(api.paths[2:])
		const folder = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/"
		assert.Check(t, is.DeepEqual([]string{
			folder + "roles", folder + "roles", folder + "rolebindings", folder + "rolebindings",
		}, api.paths), "creations")
	})
}

// The cache may not contain the previous repair yet.
func TestEditedServicePortsAreRepaired(t *testing.T) {
	t.Parallel()
	service := func(port int32) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "operands", Name: "metrics"}}
		s.Spec.ClusterIP, s.Spec.Ports = "10.1.2.3", []corev1.ServicePort{{Name: "m", Port: port}}
		return s
	}
	for name, tt := range map[string]struct {
		cached, live int32 // ports; 0 means that there is no Service
		writes       []string
	}{
		"edited":    {1, 1, []string{"update services/metrics"}},
		"repaired":  {1, 9203, nil},
		"as wanted": {9203, 0, nil},
		"missing":   {0, 0, nil},
	} {
		kube := fake.NewClientset()
		cached := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		if tt.cached != 0 {
			assert.NilError(t, cached.Add(service(tt.cached)))
		}
		if tt.live != 0 {
			clustertest.Put(t, kube, service(tt.live))
		}
		required := service(9203)
		required.Spec.ClusterIP = ""
		s := &staticObjects{
			kube: kube, read: func(string) ([]byte, error) { return yaml.Marshal(required) },
			objects: []staticObject{{
				name: "metrics", service: corelisters.NewServiceLister(cached).Services("operands"),
			}},
		}
		assert.NilError(t, s.repairPorts(t.Context()))
		assert.Check(t, is.DeepEqual(tt.writes, clustertest.Writes(kube)), "writes, %s", name)
		if tt.live != 0 {
			got, err := kube.CoreV1().Services("operands").Get(t.Context(), "metrics", metav1.GetOptions{})
			assert.NilError(t, err)
			assert.Check(t, is.DeepEqual(service(9203).Spec, got.Spec), name)
		}
	}
}

func TestFailedPortRepairIsReportedAndDelaysNoWorkload(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.Standalone, plugins()...)[0]
	assert.NilError(t, syncer(t, d, d.guestStaticResources)())
	kube := d.cluster.Side(flavour.Guest).Kube.(*fake.Clientset)
	list, err := kube.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	assert.Assert(t, err == nil && len(list.Items) == 1, "Services are %v, %v", list, err)
	edited := &list.Items[0]
	edited.Spec.Ports[0].Port++
	clustertest.Put(t, kube, edited)
	refuse(&kube.Fake, "update", "services", errors.New("not today"))
	d.initialSyncs = &initialSyncs{}
	sync := syncer(t, d, d.guestStaticResources)
	d.cluster.Side(flavour.Guest).ObjectInformers.Start(t.Context())
	d.cluster.Side(flavour.Guest).ObjectInformers.WaitForCacheSync(t.Context().Done())
	want := "repairing the ports of Service " + edited.Namespace + "/" + edited.Name + ": not today"
	assert.Check(t, is.ErrorContains(sync(), want), "the error requeues the repair")
	assert.Check(t, d.initialSyncs.done(), "the ports of a Service are a prerequisite of workloads")
	got := d.operator.(*clustertest.Operator).Condition(t, "TestDegraded")
	assert.Check(t, is.Equal(got.Status, opv1.ConditionTrue))
	assert.Check(t, is.Contains(got.Message, want))
}

// The API server does not always name the object that it refuses.
func TestRefusedObjectsAreNamed(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.Standalone, plugins()...)[0]
	kube := d.cluster.Side(flavour.Guest).Kube.(*fake.Clientset)
	refuse(&kube.Fake, "create", "serviceaccounts", errors.New("a webhook denied the request"))
	err := syncer(t, d, d.guestStaticResources)()
	assert.Check(t, is.Regexp(`ServiceAccount openshift-[\w-]+/[\w-]+: a webhook denied`, err.Error()))
}
