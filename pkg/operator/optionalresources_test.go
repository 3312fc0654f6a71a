package operator

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const snapshotClasses = "volumesnapshotclasses.snapshot.storage.k8s.io"

func crd(
	conditions ...apiextensionsv1.CustomResourceDefinitionCondition,
) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: snapshotClasses, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "big"}},
		},
		Spec:   apiextensionsv1.CustomResourceDefinitionSpec{Group: "snapshot.storage.k8s.io"},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: conditions},
	}
}

func isEstablished(
	status apiextensionsv1.ConditionStatus,
) apiextensionsv1.CustomResourceDefinitionCondition {
	return apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Established, Status: status,
	}
}

func TestCRDCountsOnlyWhileItIsEstablished(t *testing.T) {
	t.Parallel()
	accepted := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue,
	}
	for name, tt := range map[string]struct {
		crd  *apiextensionsv1.CustomResourceDefinition
		want bool
	}{
		"none":             {nil, false},
		"new":              {crd(), false},
		"names accepted":   {crd(accepted), false},
		"not established":  {crd(accepted, isEstablished(apiextensionsv1.ConditionFalse)), false},
		"established":      {crd(accepted, isEstablished(apiextensionsv1.ConditionTrue)), true},
		"without a schema": {stripped(t, crd(isEstablished(apiextensionsv1.ConditionTrue))), true},
	} {
		store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
		if tt.crd != nil {
			if err := store.Add(tt.crd); err != nil {
				t.Fatal(err)
			}
		}
		lister := apiextensionslisters.NewCustomResourceDefinitionLister(store)
		if got := established(lister, snapshotClasses); got != tt.want {
			t.Errorf("%s: established is %v", name, got)
		}
	}
}

func stripped(
	t *testing.T, from *apiextensionsv1.CustomResourceDefinition,
) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	got, err := withoutSchema(from)
	if err != nil {
		t.Fatal(err)
	}
	return got.(*apiextensionsv1.CustomResourceDefinition)
}

func TestSchemaIsRemovedFromTheCache(t *testing.T) {
	t.Parallel()
	want := crd(isEstablished(apiextensionsv1.ConditionTrue))
	want.Spec, want.ManagedFields = apiextensionsv1.CustomResourceDefinitionSpec{}, nil
	diff := cmp.Diff(want, stripped(t, crd(isEstablished(apiextensionsv1.ConditionTrue))))
	if diff != "" {
		t.Errorf("CRD (-want +got):\n%s", diff)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "a"}
	if got, err := withoutSchema(tombstone); err != nil || got != any(tombstone) {
		t.Errorf("got %v, %v of a tombstone", got, err)
	}
}

// Prometheus of another cluster has no file with the service CA.
func TestServiceMonitorNamesTheServiceCAOnlyOnOpenShift(t *testing.T) {
	t.Parallel()
	for clusterID, want := range map[string]map[string]any{
		"": {
			"caFile":     "/etc/prometheus/configmaps/serving-certs-ca-bundle/service-ca.crt",
			"serverName": "manila-csi-driver-controller-metrics.openshift-manila-csi-driver.svc",
		},
		"kubernetes": {
			"insecureSkipVerify": true,
			"serverName":         "manila-csi-driver-controller-metrics.openshift-manila-csi-driver.svc",
		},
	} {
		monitor := createdServiceMonitor(t, clusterID)
		endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
		if err != nil || len(endpoints) != 3 {
			t.Fatalf("cluster ID %q: endpoints %v, %v", clusterID, endpoints, err)
		}
		for _, endpoint := range endpoints {
			if diff := cmp.Diff(want, endpoint.(map[string]any)["tlsConfig"]); diff != "" {
				t.Errorf("cluster ID %q: tlsConfig (-want +got):\n%s", clusterID, diff)
			}
		}
	}
}

// createdServiceMonitor returns the ServiceMonitor that the controller creates in a cluster with
// the CRD.
func createdServiceMonitor(t *testing.T, clusterID string) *unstructured.Unstructured {
	t.Helper()
	d := assembled(t, flavour.Standalone, plugins()...)[0]
	d.settings.ClusterID = clusterID
	clients := *d.cluster.Side(flavour.ControlPlane)
	definition := crd(isEstablished(apiextensionsv1.ConditionTrue))
	definition.Name = "servicemonitors.monitoring.coreos.com"
	clients.APIExtensions = apiextensionsfake.NewClientset(definition)
	d.cluster = cluster.New(flavour.Standalone, d.cluster.Namespaces, &clients, &clients)
	controller, err := d.serviceMonitor("ServiceMonitorController")
	if err != nil {
		t.Fatal(err)
	}
	d.cluster.Start(t.Context())
	var monitor *unstructured.Unstructured
	monitors := clients.Dynamic.Resource(schema.GroupVersionResource{
		Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors",
	}).Namespace(operandNamespace)
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			if err := controller.Sync(ctx, factory.NewSyncContext("test", d.events)); err != nil {
				return false, err
			}
			monitor, err = monitors.Get(ctx, "manila-csi-driver-controller-monitor", metav1.GetOptions{})
			return err == nil, nil
		})
	if err != nil {
		t.Fatalf("cluster ID %q: %v", clusterID, err)
	}
	return monitor
}
