package operator

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// The cache may not contain the previous repair yet.
func TestEditedServicePortsAreRepaired(t *testing.T) {
	t.Parallel()
	service := func(port int32) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "operands", Name: "metrics"}}
		s.Spec.ClusterIP, s.Spec.Ports = "10.1.2.3", []corev1.ServicePort{{Name: "m", Port: port}}
		return s
	}
	for name, tt := range map[string]struct {
		cached, live []*corev1.Service
		writes       []string
	}{
		"edited": {
			[]*corev1.Service{service(1)},
			[]*corev1.Service{service(1)},
			[]string{"update services/metrics"},
		},
		"repaired":  {[]*corev1.Service{service(1)}, []*corev1.Service{service(9203)}, nil},
		"as wanted": {[]*corev1.Service{service(9203)}, nil, nil},
		"missing":   {nil, nil, nil},
	} {
		kube := fake.NewClientset()
		cached := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		for _, s := range tt.cached {
			assert.NilError(t, cached.Add(s))
		}
		for _, s := range tt.live {
			assert.NilError(t, kube.Tracker().Add(s))
		}
		required := service(9203)
		required.Spec.ClusterIP = ""
		s := &servicePorts{kube: kube, required: []requiredService{
			{Service: required, lister: corelisters.NewServiceLister(cached)},
		}}
		assert.NilError(t, s.sync(t.Context()))
		assert.Check(t, is.DeepEqual(tt.writes, clustertest.Writes(kube)), "writes, %s", name)
		if tt.live != nil {
			got, err := kube.CoreV1().Services("operands").Get(t.Context(), "metrics", metav1.GetOptions{})
			assert.NilError(t, err)
			assert.Check(t, is.DeepEqual(service(9203).Spec, got.Spec), name)
		}
	}
}

func TestFailedPortRepairIsReportedAndDelaysNoWorkload(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.Standalone, plugins()...)[0]
	const name = "OpenStackManilaDriverGuestStaticResourcesController"
	controller, err := d.guestStaticResources(name)
	assert.NilError(t, err)
	syncCtx := factory.NewSyncContext("test", d.events)
	assert.NilError(t, controller.Sync(t.Context(), syncCtx))
	kube := d.cluster.Side(flavour.Guest).Kube.(*fake.Clientset)
	list, err := kube.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	assert.Assert(t, err == nil && len(list.Items) == 1, "Services are %v, %v", list, err)
	edited := &list.Items[0]
	edited.Spec.Ports[0].Port++
	clustertest.Put(t, kube, edited)
	kube.PrependReactor("update", "services",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("not today")
		})
	d.initialSyncs = &initialSyncs{}
	controller, err = d.guestStaticResources(name)
	assert.NilError(t, err)
	d.cluster.Side(flavour.Guest).ObjectInformers.Start(t.Context())
	d.cluster.Side(flavour.Guest).ObjectInformers.WaitForCacheSync(t.Context().Done())
	want := "repairing the ports of Service " + edited.Namespace + "/" + edited.Name + ": not today"
	err = controller.Sync(t.Context(), syncCtx)
	assert.Check(t, is.ErrorContains(err, want), "the error requeues the repair")
	assert.Check(t, d.initialSyncs.done(), "the ports of a Service are a prerequisite of workloads")
	got := d.operator.(*clustertest.Operator).Condition(t, name+"Degraded")
	assert.Check(t, is.Equal(got.Status, opv1.ConditionTrue))
	assert.Check(t, is.Contains(got.Message, want))
}
