package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster/clustertest"
)

func TestEditedServicePortsAreRepaired(t *testing.T) {
	t.Parallel()
	const namespace, name, clusterIP = "operands", "metrics", "10.1.2.3"
	wanted := []corev1.ServicePort{{Name: "m", Port: 9203, Protocol: corev1.ProtocolTCP}}
	edited := []corev1.ServicePort{{Name: "other", Port: 1, Protocol: corev1.ProtocolTCP}}
	tests := map[string]struct {
		state         opv1.ManagementState
		present, want []corev1.ServicePort
		writes        int
	}{
		"edited":           {opv1.Managed, edited, wanted, 1},
		"as wanted":        {opv1.Managed, wanted, wanted, 0},
		"edited unmanaged": {opv1.Unmanaged, edited, edited, 0},
		"missing":          {opv1.Managed, nil, nil, 0},
	}
	for testName, tt := range tests {
		t.Run(testName, func(t *testing.T) {
			t.Parallel()
			driver := &opv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "leader"}}
			driver.Spec.ManagementState = tt.state
			seed := clustertest.Seed{DriverNamespace: namespace, ClusterCSIDriver: driver}
			if tt.present != nil {
				service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
				service.Spec.ClusterIP, service.Spec.Ports = clusterIP, tt.present
				seed.Guest = []runtime.Object{service}
			}
			fake := clustertest.New(t, seed)
			clients := fake.Side(bundle.Guest)
			services := clients.Named.For(namespace, name).Core().V1().Services()
			services.Informer()
			fake.Operator.Informer()
			fake.Start(t)
			required := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
			required.Spec.Ports = wanted
			s := &servicePorts{fake.Operator, clients.Kube, []requiredService{{required, services.Lister()}}}
			if err := s.sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			writes := 0
			for _, action := range fake.Guest.Actions() {
				if action.GetVerb() == "update" {
					writes++
				}
			}
			if writes != tt.writes {
				t.Errorf("%d writes, want %d", writes, tt.writes)
			}
			if tt.present == nil {
				return
			}
			got, err := clients.Kube.CoreV1().Services(namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Spec.Ports); diff != "" || got.Spec.ClusterIP != clusterIP {
				t.Errorf("clusterIP is %s, ports differ (-want +got):\n%s", got.Spec.ClusterIP, diff)
			}
		})
	}
}
