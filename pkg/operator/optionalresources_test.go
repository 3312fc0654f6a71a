package operator

import (
	"maps"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// Prometheus of another cluster has no file with the service CA. OpenShift creates the Service of
// the operator since 4.22.
func TestServiceMonitorsFollowTheClusterAndTheServiceOfTheOperator(t *testing.T) {
	t.Parallel()
	for f, verification := range map[flavour.Flavour]map[string]any{
		flavour.Standalone: {
			"caFile": "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt",
		},
		flavour.Kubernetes: {"insecureSkipVerify": true},
	} {
		d := assembled(t, f, plugins()...)[0]
		d.settings.MonitorLabels = map[string]string{"release": "prometheus"}
		clients := d.cluster.Side(flavour.ControlPlane)
		api := clients.Dynamic.(*dynamicfake.FakeDynamicClient)
		sync := syncer(t, d, d.serviceMonitor)
		d.cluster.Start(t.Context())
		assert.NilError(t, sync())
		about := func(a clienttesting.Action) bool {
			return a.GetResource().Resource == "servicemonitors"
		}
		assert.Check(t, !slices.ContainsFunc(api.Actions(), about), "requests without a CRD")
		clustertest.PutCRD(t, clients.Metadata, "servicemonitors.monitoring.coreos.com")
		monitors := api.Resource(schema.GroupVersionResource{
			Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors",
		})
		await := func(namespace, name string) (monitor *unstructured.Unstructured) {
			clustertest.Eventually(t, func() bool {
				err := sync()
				assert.NilError(t, err)
				monitor, err = monitors.Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
				return err == nil
			}, "ServiceMonitor "+namespace+"/"+name)
			return monitor
		}
		const name = "manila-csi-driver-operator"
		driver := await(d.cluster.Namespaces.ControlPlane, "manila-csi-driver-controller-monitor")
		_, err := monitors.Namespace("operators").Get(t.Context(), name, metav1.GetOptions{})
		assert.Check(t, apierrors.IsNotFound(err), "without the Service of the operator: %v", err)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "test-operator-metrics"}}
		_, err = clients.Kube.CoreV1().Services("operators").
			Create(t.Context(), service, metav1.CreateOptions{})
		assert.NilError(t, err)
		of := await("operators", name)
		for server, monitor := range map[string]*unstructured.Unstructured{
			"manila-csi-driver-controller-metrics." + driver.GetNamespace() + ".svc": driver,
			name + "-metrics.operators.svc":                                          of,
		} {
			assert.Check(t, is.Equal(monitor.GetLabels()["release"], "prometheus"))
			endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
			assert.Assert(t, err == nil && len(endpoints) > 0, "endpoints %v, %v", endpoints, err)
			want := maps.Clone(verification)
			want["serverName"] = server
			for _, endpoint := range endpoints {
				assert.Check(t, is.DeepEqual(want, endpoint.(map[string]any)["tlsConfig"]),
					"%s: tlsConfig", f)
			}
		}
		gone := apierrors.NewNotFound(schema.GroupResource{}, "")
		refuse(&api.Fake, "*", "servicemonitors", gone)
		assert.NilError(t, sync(), "the CRD is gone, which the cache does not know")
	}
}
