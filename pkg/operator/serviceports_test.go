package operator

import (
	"errors"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"

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
		s := &servicePorts{kube: kube, required: []requiredService{
			{Service: required, lister: corelisters.NewServiceLister(cached)},
		}}
		assert.NilError(t, s.sync(t.Context()))
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
