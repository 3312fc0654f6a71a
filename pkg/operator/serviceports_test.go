package operator

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

func TestEditedServicePortsAreRepaired(t *testing.T) {
	t.Parallel()
	const namespace, name, clusterIP = "operands", "metrics", "10.1.2.3"
	wanted := []corev1.ServicePort{{Name: "m", Port: 9203, Protocol: corev1.ProtocolTCP}}
	edited := []corev1.ServicePort{{Name: "other", Port: 1, Protocol: corev1.ProtocolTCP}}
	tests := map[string]struct {
		present, want []corev1.ServicePort
		writes        int
	}{
		"edited":    {edited, wanted, 1},
		"as wanted": {wanted, wanted, 0},
		"missing":   {nil, nil, 0},
	}
	for testName, tt := range tests {
		t.Run(testName, func(t *testing.T) {
			t.Parallel()
			seed := clustertest.Seed{DriverNamespace: namespace}
			if tt.present != nil {
				service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
				service.Spec.ClusterIP, service.Spec.Ports = clusterIP, tt.present
				seed.Guest = []runtime.Object{service}
			}
			f := clustertest.New(t, seed)
			clients := f.Side(flavour.Guest)
			services := clients.ObjectInformers.For(namespace, name).Core().V1().Services()
			services.Informer()
			f.Start(t)
			required := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			required.Spec.Ports = wanted
			s := &servicePorts{
				kube:     clients.Kube,
				required: []requiredService{{Service: required, lister: services.Lister()}},
			}
			assert.NilError(t, s.sync(t.Context()))
			writes := 0
			for _, action := range f.Guest.Actions() {
				if action.GetVerb() == "update" {
					writes++
				}
			}
			assert.Check(t, writes == tt.writes, "%d writes, want %d", writes, tt.writes)
			if tt.present == nil {
				return
			}
			got, err := clients.Kube.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
			assert.NilError(t, err)
			if diff := cmp.Diff(tt.want, got.Spec.Ports); diff != "" || got.Spec.ClusterIP != clusterIP {
				t.Errorf("clusterIP is %s, ports differ (-want +got):\n%s", got.Spec.ClusterIP, diff)
			}
		})
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
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("got %d Services, %v", len(list.Items), err)
	}
	edited := list.Items[0]
	edited.Spec.Ports[0].Port++
	if _, err := kube.CoreV1().Services(edited.Namespace).Update(t.Context(), &edited,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.PrependReactor(
		"update",
		"services",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("not today")
		},
	)
	d.initialSyncs = &initialSyncs{}
	if controller, err = d.guestStaticResources(name); err != nil {
		t.Fatal(err)
	}
	d.cluster.Side(flavour.Guest).ObjectInformers.Start(t.Context())
	d.cluster.Side(flavour.Guest).ObjectInformers.WaitForCacheSync(t.Context().Done())
	if err := controller.Sync(t.Context(), syncCtx); err == nil {
		t.Error("no error requeues the repair")
	}
	assert.Check(t, d.initialSyncs.done(), "the ports of a Service are a prerequisite of workloads")
	_, status, _, err := d.operator.GetOperatorState()
	assert.NilError(t, err)
	got := v1helpers.FindOperatorCondition(status.Conditions, name+"Degraded")
	if got == nil || got.Status != opv1.ConditionTrue ||
		!strings.Contains(
			got.Message, "repairing the ports of Service "+edited.Namespace+"/"+edited.Name+": not today",
		) {
		t.Errorf("the condition is %+v", got)
	}
}

// The cache does not contain the previous repair yet.
func TestPortRepairReadsTheAPIServer(t *testing.T) {
	t.Parallel()
	required := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "operands", Name: "metrics"}}
	required.Spec.Ports = []corev1.ServicePort{{Name: "m", Port: 9203}}
	kube := fake.NewClientset(required.DeepCopy())
	stale := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	assert.NilError(t, stale.Add(&corev1.Service{ObjectMeta: required.ObjectMeta}))
	s := &servicePorts{
		kube:     kube,
		required: []requiredService{{Service: required, lister: corelisters.NewServiceLister(stale)}},
	}
	assert.NilError(t, s.sync(t.Context()))
	if writes := clustertest.Writes(kube); len(writes) > 0 {
		t.Errorf("writes are %v", writes)
	}
}
