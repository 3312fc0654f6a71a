package operator

import (
	"maps"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// Prometheus of another cluster has no file with the service CA. OpenShift creates the Service of
// the operator since 4.22.
func TestServiceMonitorsFollowTheClusterAndTheServiceOfTheOperator(t *testing.T) {
	t.Parallel()
	for clusterID, verification := range map[string]map[string]any{
		"":           {"caFile": "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt"},
		"kubernetes": {"insecureSkipVerify": true},
	} {
		m := newMonitored(t, clusterID)
		const name = "manila-csi-driver-operator"
		driver := m.await(operandNamespace, "manila-csi-driver-controller-monitor")
		_, err := m.monitors.Namespace("operators").Get(t.Context(), name, metav1.GetOptions{})
		assert.Check(t, apierrors.IsNotFound(err), "without the Service of the operator: %v", err)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "test-operator-metrics"}}
		_, err = m.services.Create(t.Context(), service, metav1.CreateOptions{})
		assert.NilError(t, err)
		of := m.await("operators", name)
		for server, monitor := range map[string]*unstructured.Unstructured{
			"manila-csi-driver-controller-metrics.openshift-manila-csi-driver.svc": driver,
			name + "-metrics.operators.svc":                                        of,
		} {
			endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
			assert.Assert(t, err == nil && len(endpoints) > 0, "endpoints %v, %v", endpoints, err)
			want := maps.Clone(verification)
			want["serverName"] = server
			for _, endpoint := range endpoints {
				assert.Check(t, is.DeepEqual(want, endpoint.(map[string]any)["tlsConfig"]),
					"cluster ID %q: tlsConfig", clusterID)
			}
		}
	}
}

// monitored is an operator in a cluster with the CRD of ServiceMonitors.
type monitored struct {
	*testing.T

	controller factory.Controller
	events     events.Recorder
	monitors   dynamic.NamespaceableResourceInterface
	services   corev1client.ServiceInterface // in the namespace of the operator
}

func newMonitored(t *testing.T, clusterID string) monitored {
	t.Helper()
	d := assembled(t, flavour.Standalone, plugins()...)[0]
	d.settings.ClusterID = clusterID
	clients := *d.cluster.Side(flavour.ControlPlane)
	clustertest.PutCRD(t, clients.Metadata, "servicemonitors.monitoring.coreos.com")
	d.cluster = cluster.New(flavour.Standalone, d.cluster.Namespaces, &clients, &clients)
	controller, err := d.serviceMonitor("ServiceMonitorController")
	assert.NilError(t, err)
	d.cluster.Start(t.Context())
	return monitored{
		T: t, controller: controller, events: d.events,
		monitors: clients.Dynamic.Resource(schema.GroupVersionResource{
			Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors",
		}),
		services: clients.Kube.CoreV1().Services(d.cluster.Namespaces.Operator),
	}
}

// await syncs until a ServiceMonitor exists.
func (m monitored) await(namespace, name string) *unstructured.Unstructured {
	m.Helper()
	var monitor *unstructured.Unstructured
	clustertest.Eventually(m, func() bool {
		err := m.controller.Sync(m.Context(), factory.NewSyncContext("test", m.events))
		assert.NilError(m, err)
		monitor, err = m.monitors.Namespace(namespace).Get(m.Context(), name, metav1.GetOptions{})
		return err == nil
	}, "ServiceMonitor "+namespace+"/"+name)
	return monitor
}
