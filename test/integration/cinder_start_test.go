//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// cinderObject is an object of the driver and the expected values of some fields.
type cinderObject struct {
	group, version, resource, namespace, name string
	fields                                    map[string]any
}

// cinderObjects returns the objects whose names must not change between releases.
func cinderObjects() []cinderObject {
	const namespace = operatorNamespace
	app := map[string]any{"app": cinderController}
	return []cinderObject{
		{
			"apps", "v1", "deployments", namespace, cinderController,
			map[string]any{"spec.selector.matchLabels": app, "spec.replicas": int64(2)},
		},
		{
			"apps", "v1", "daemonsets", namespace, cinderNode,
			map[string]any{"spec.selector.matchLabels": map[string]any{"app": cinderNode}},
		},
		{"", "v1", "serviceaccounts", namespace, cinderController + "-sa", nil},
		{"", "v1", "serviceaccounts", namespace, cinderNode + "-sa", nil},
		{
			"policy", "v1", "poddisruptionbudgets", namespace, cinderController + "-pdb",
			map[string]any{"spec.selector.matchLabels": app, "spec.maxUnavailable": int64(1)},
		},
		{
			"", "v1", "services", namespace, cinderController + "-metrics",
			map[string]any{"spec.selector": app},
		},
		{"monitoring.coreos.com", "v1", "servicemonitors", namespace, cinderController + "-monitor", nil},
		{
			"", "v1", "configmaps", namespace, cinderTrustedCA,
			map[string]any{"metadata.labels": map[string]any{injectLabel: "true"}},
		},
		{"storage.k8s.io", "v1", "csidrivers", "", cinder().ClusterCSIDriver, map[string]any{
			"metadata.annotations": nil, "spec.attachRequired": true, "spec.podInfoOnMount": true,
			"spec.fsGroupPolicy": "File", "spec.seLinuxMount": true,
			"spec.requiresRepublish": false, "spec.storageCapacity": false,
			"spec.volumeLifecycleModes": []any{"Persistent"},
		}},
		{"snapshot.storage.k8s.io", "v1", "volumesnapshotclasses", "", standardClass, map[string]any{
			"driver": cinder().ClusterCSIDriver, "deletionPolicy": "Delete",
			"parameters": map[string]any{"force-create": "false"},
			"metadata.annotations": map[string]any{
				"snapshot.storage.kubernetes.io/is-default-class": "true",
			},
		}},
	}
}

// cinderRBAC returns the RBAC objects whose names must not change between releases.
func cinderRBAC() []cinderObject {
	const group, version = "rbac.authorization.k8s.io", "v1"
	all := []cinderObject{
		{group, version, "clusterroles", "", "openstack-cinder-privileged-role", nil},
		{
			group, version, "rolebindings", operatorNamespace, "openstack-cinder-csi-driver-prometheus", nil,
		},
	}
	for _, name := range []string{
		"csi-main-attacher", "csi-main-provisioner", "csi-main-resizer",
		"node-privileged",
	} {
		name = "openstack-cinder-" + name + "-binding"
		all = append(all, cinderObject{group, version, "clusterrolebindings", "", name, nil})
	}
	return all
}

func (o cinderObject) get(e *env) (*unstructured.Unstructured, error) {
	resource := schema.GroupVersionResource{Group: o.group, Version: o.version, Resource: o.resource}
	return e.guest.dynamic.Resource(resource).Namespace(o.namespace).
		Get(e.ctx(), o.name, metav1.GetOptions{})
}

func TestCinderStarts(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.parts(
		part{"CreatesObjects", e.createsObjects},
		part{"CreatesConfigBeforeWorkloads", e.createsConfigBeforeWorkloads},
		part{"MakesClassDefault", e.makesClassDefault},
		part{"Settles", e.settles},
		part{"KeepsChosenDefaultClass", e.keepsChosenDefaultClass},
		part{"FollowsStorageClassState", e.followsStorageClassState},
		part{"WritesNothingWhileUnmanaged", e.writesNothingWhileUnmanaged},
	)
}

// createsObjects checks the objects that upgrades, documentation and other operators rely on.
func (e *cinderEnv) createsObjects() {
	e.awaitAvailable()
	for _, o := range append(cinderObjects(), cinderRBAC()...) {
		object, err := o.get(e.env)
		if err != nil {
			e.t.Error(err)
			continue
		}
		for path, want := range o.fields {
			got, _, err := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
			e.must(err)
			if path == "metadata.annotations" && want == nil { // the name of the annotation contains dots
				got, want = object.GetAnnotations()["csi.openshift.io/managed"], "true"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				e.t.Errorf("%s of %s %s differs (-want +got):\n%s", path, o.resource, o.name, diff)
			}
		}
	}
	e.must(e.hasCloudConf(map[string]string{confKey: generatedConf, topologyKey: "true"}))
	e.must(e.hasCondition(cinderReachable, opv1.ConditionTrue, "AsExpected"))
	e.must(e.hasCondition(cinderProgressing, opv1.ConditionFalse, "AsExpected"))
	e.must(e.hasCondition(cinderDegraded, opv1.ConditionFalse, ""))
	service, err := e.guest.kube.CoreV1().Services(operatorNamespace).
		Get(e.t.Context(), cinderController+"-metrics", metav1.GetOptions{})
	e.must(err)
	var ports []int32
	for _, port := range service.Spec.Ports {
		ports = append(ports, port.Port)
	}
	if want := []int32{9202, 9203, 9204, 9205, 9206}; !slices.Equal(ports, want) {
		e.t.Errorf("the ports of the metrics are %v, want %v", ports, want)
	}
}

func (e *cinderEnv) createsConfigBeforeWorkloads() {
	e.awaitAvailable()
	created := func(resource, name string) time.Time {
		e.t.Helper()
		found := e.requests(e.began, ofVerb("create"), successful, ofResource(resource),
			func(r request) bool {
				return name == "" || r.Name == name
			})
		if len(found) == 0 {
			e.t.Fatalf("the operator did not create %s %s", resource, name)
		}
		return found[0].Time
	}
	conf := created("configmaps", cloudConf)
	for _, resource := range []string{"deployments", "daemonsets"} {
		if at := created(resource, ""); at.Before(conf) {
			e.t.Errorf("%s was created %v before %s", resource, conf.Sub(at), cloudConf)
		}
	}
}

// settles checks that the idle operator writes nothing and does not probe the cloud again soon.
func (e *cinderEnv) settles() {
	e.awaitAvailable()
	e.awaitNoWrites()
	e.cloud.ResetLog()
	e.expectNoWritesFor(6 * time.Second)
	counters := e.cloud.Counters()
	if counters.LoginAttempts > 0 || counters.Requests[simulator.Compute] > 0 {
		e.t.Errorf("there were other requests than for the zones of volumes: %v", counters.Calls)
	}
}

// standardStorageClass is the StorageClass of claims without a class.
func standardStorageClass(isDefault string) storagev1.StorageClass {
	return storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name:        standardClass,
			Annotations: map[string]string{defaultAnnotation: isDefault},
		},
		Provisioner:          cinder().ClusterCSIDriver,
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowVolumeExpansion: ptr.To(true),
	}
}

func (e *cinderEnv) makesClassDefault() {
	e.awaitAvailable()
	e.must(e.isClass(standardStorageClass("true")))
}

// keepsChosenDefaultClass checks that the operator does not revert the annotation, even after a
// restart.
func (e *cinderEnv) keepsChosenDefaultClass() {
	e.awaitAvailable()
	for _, isDefault := range []string{"false", "true", "false"} {
		e.awaitNoWrites()
		e.patch(resource("storage.k8s.io", "storageclasses"), "", standardClass,
			fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, defaultAnnotation, isDefault))
		e.expectNoWritesFor(2 * time.Second)
		e.must(e.isClass(standardStorageClass(isDefault)))
	}
	e.restartOperator()
	e.awaitNoWrites()
	e.must(e.isClass(standardStorageClass("false")))
}

func (e *cinderEnv) followsStorageClassState() {
	e.awaitAvailable()
	e.deleteClass(standardClass)
	e.within(prompt, func() error { return e.isClass(standardStorageClass("true")) })

	e.setStorageClassState(opv1.UnmanagedStorageClass)
	e.awaitNoWrites()
	e.deleteClass(standardClass)
	e.expectNoWritesFor(2 * time.Second)
	e.must(e.hasClasses())

	e.setStorageClassState(opv1.ManagedStorageClass)
	e.within(prompt, func() error { return e.isClass(standardStorageClass("true")) })
	e.setStorageClassState(opv1.RemovedStorageClass)
	e.within(prompt, func() error { return e.hasClasses() })
	e.awaitAvailable()
	e.setStorageClassState("")
	e.within(prompt, func() error { return e.isClass(standardStorageClass("true")) })
	e.awaitAvailable()
}

func (e *cinderEnv) writesNothingWhileUnmanaged() {
	e.awaitAvailable()
	e.setManagementState(opv1.Unmanaged)
	e.awaitNoWrites()
	e.setMismatchedZones()
	e.triggerZoneProbe()
	e.putUserConfig(map[string]string{topologyKey: "false"})
	e.expectNoWritesFor(3 * time.Second)
	e.must(e.hasTopology("true"))
	e.setManagementState(opv1.Managed)
	e.within(prompt, func() error { return e.hasTopology("false") })
}
