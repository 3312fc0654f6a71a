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

// cinderObject is an object that the driver must have, with some of its fields.
type cinderObject struct {
	group, version, resource, namespace, name string
	fields                                    map[string]any
}

// cinderObjects are those of contract.md 3.7 and operands.md.
func cinderObjects() []cinderObject {
	const namespace = operatorNamespace
	app := map[string]any{"app": cinderController}
	return []cinderObject{
		{"apps", "v1", "deployments", namespace, cinderController, map[string]any{"spec.selector.matchLabels": app, "spec.replicas": int64(2)}},
		{"apps", "v1", "daemonsets", namespace, cinderNode, map[string]any{"spec.selector.matchLabels": map[string]any{"app": cinderNode}}},
		{"", "v1", "serviceaccounts", namespace, cinderController + "-sa", nil},
		{"", "v1", "serviceaccounts", namespace, cinderNode + "-sa", nil},
		{"policy", "v1", "poddisruptionbudgets", namespace, cinderController + "-pdb", map[string]any{"spec.selector.matchLabels": app, "spec.maxUnavailable": int64(1)}},
		{"", "v1", "services", namespace, cinderController + "-metrics", map[string]any{"spec.selector": app}},
		{"monitoring.coreos.com", "v1", "servicemonitors", namespace, cinderController + "-monitor", nil},
		{"", "v1", "configmaps", namespace, cinderTrustedCA, map[string]any{"metadata.labels": map[string]any{"config.openshift.io/inject-trusted-cabundle": "true"}}},
		{"storage.k8s.io", "v1", "csidrivers", "", cinder().driver, map[string]any{
			"metadata.annotations": nil, "spec.attachRequired": true, "spec.podInfoOnMount": true, "spec.fsGroupPolicy": "File", "spec.seLinuxMount": true,
			"spec.requiresRepublish": false, "spec.storageCapacity": false, "spec.volumeLifecycleModes": []any{"Persistent"},
		}},
		{"snapshot.storage.k8s.io", "v1", "volumesnapshotclasses", "", standardClass, map[string]any{
			"driver": cinder().driver, "deletionPolicy": "Delete", "parameters": map[string]any{"force-create": "false"},
			"metadata.annotations": map[string]any{"snapshot.storage.kubernetes.io/is-default-class": "true"},
		}},
		{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "", "openstack-cinder-csi-main-attacher-binding", nil},
		{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "", "openstack-cinder-csi-main-provisioner-binding", nil},
		{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "", "openstack-cinder-csi-main-resizer-binding", nil},
		{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "", "openstack-cinder-csi-main-snapshotter-binding", nil},
		{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "", "openstack-cinder-node-privileged-binding", nil},
		{"rbac.authorization.k8s.io", "v1", "clusterroles", "", "openstack-cinder-privileged-role", nil},
		{"rbac.authorization.k8s.io", "v1", "rolebindings", namespace, "openstack-cinder-csi-driver-prometheus", nil},
	}
}

func (o cinderObject) get(e *env) (*unstructured.Unstructured, error) {
	resource := schema.GroupVersionResource{Group: o.group, Version: o.version, Resource: o.resource}
	return e.guest.dynamic.Resource(resource).Namespace(o.namespace).Get(e.ctx(), o.name, metav1.GetOptions{})
}

// TestCinderStart: the driver is installed and available, with the objects that upgrades, documents and other operators know.
func TestCinderStart(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.awaitAvailable()
	for _, o := range cinderObjects() {
		object, err := o.get(e.env)
		if err != nil {
			t.Error(err)
			continue
		}
		for path, want := range o.fields {
			got, _, err := unstructured.NestedFieldNoCopy(object.Object, strings.Split(path, ".")...)
			e.must(err)
			if path == "metadata.annotations" && want == nil { // the annotation of CSIDriver has dots in its name
				got, want = object.GetAnnotations()["csi.openshift.io/managed"], "true"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s of %s %s differs (-want +got):\n%s", path, o.resource, o.name, diff)
			}
		}
	}
	e.must(e.hasCloudConf(map[string]string{confKey: generatedConf, topologyKey: "true"}))
	e.must(e.hasCondition(cinderReachable, opv1.ConditionTrue, "AsExpected"))
	e.must(e.hasCondition(cinderProgressing, opv1.ConditionFalse, "AsExpected"))
	e.must(e.hasCondition(cinderDegraded, opv1.ConditionFalse, ""))
	service, err := e.guest.kube.CoreV1().Services(operatorNamespace).Get(t.Context(), cinderController+"-metrics", metav1.GetOptions{})
	e.must(err)
	var ports []int32
	for _, port := range service.Spec.Ports {
		ports = append(ports, port.Port)
	}
	if want := []int32{9202, 9203, 9204, 9205, 9206}; !slices.Equal(ports, want) {
		t.Errorf("the ports of the metrics are %v, want %v", ports, want)
	}
}

// TestCinderConfigComesBeforeWorkloads: no pod of the driver is made before what it reads is there.
func TestCinderConfigComesBeforeWorkloads(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.awaitAvailable()
	created := func(resource, name string) time.Time {
		t.Helper()
		found := e.requests(e.began, ofVerb("create"), successful, ofResource(resource), func(r request) bool { return name == "" || r.Name == name })
		if len(found) == 0 {
			t.Fatalf("nobody has created %s %s", resource, name)
		}
		return found[0].Time
	}
	conf := created("configmaps", cloudConf)
	for _, resource := range []string{"deployments", "daemonsets"} {
		if at := created(resource, ""); at.Before(conf) {
			t.Errorf("%s came %v before %s", resource, conf.Sub(at), cloudConf)
		}
	}
}

// TestCinderSettles: when all is done nothing is written, and the cloud is not asked again soon.
func TestCinderSettles(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.awaitAvailable()
	e.awaitNoWrites()
	e.must(e.cloud.ResetLog(t.Context()))
	e.expectNoWritesFor(6 * time.Second)
	if total := e.counters().Total(); total > 0 {
		t.Errorf("there were %d requests to the cloud, want none before the zones are due", total)
	}
}

// standard is the class that claims without a class get.
func standardStorageClass(isDefault string) storagev1.StorageClass {
	return storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: standardClass, Annotations: map[string]string{defaultAnnotation: isDefault}},
		Provisioner:          cinder().driver,
		ReclaimPolicy:        ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		AllowVolumeExpansion: ptr.To(true),
	}
}

// TestCinderClassIsDefault: the class is the default one in a cluster that has none.
func TestCinderClassIsDefault(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.awaitAvailable()
	e.must(e.isClass(standardStorageClass("true")))
}

// TestCinderClassBesideADefault: an administrator's default stays the only one (fault 22).
func TestCinderClassBesideADefault(t *testing.T) {
	t.Parallel()
	other := standardStorageClass("true")
	other.Name, other.Provisioner = "of-an-administrator", "example.com/other"
	e := newCinder(t, options{Before: func(e *env) {
		_, err := e.guest.kube.StorageV1().StorageClasses().Create(e.ctx(), &other, metav1.CreateOptions{})
		e.must(err)
	}})
	e.awaitAvailable()
	e.must(e.isClass(standardStorageClass("false")))
}

// TestCinderDefaultChosen: an administrator who takes the default away, or gives it back, is obeyed at once and after a restart
// (fault 22).
func TestCinderDefaultChosen(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.awaitAvailable()
	for _, isDefault := range []string{"false", "true", "false"} {
		e.awaitNoWrites()
		e.patch(resource("storage.k8s.io", "storageclasses"), "", standardClass, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, defaultAnnotation, isDefault))
		e.expectNoWritesFor(2 * time.Second)
		e.must(e.isClass(standardStorageClass(isDefault)))
	}
	e.restartOperator()
	e.awaitNoWrites()
	e.must(e.isClass(standardStorageClass("false")))
}

// TestCinderStorageClassState: the class is kept, left alone or removed as the ClusterCSIDriver says (fault 23).
func TestCinderStorageClassState(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.awaitAvailable()
	state := func(s opv1.StorageClassStateName) {
		e.changeDriver(func(d *opv1.ClusterCSIDriver) { d.Spec.StorageClassState = s })
	}
	e.deleteClass(standardClass)
	e.within(prompt, func() error { return e.isClass(standardStorageClass("true")) })

	state(opv1.UnmanagedStorageClass)
	e.awaitNoWrites()
	e.deleteClass(standardClass)
	e.throughout(2*time.Second, func() error { return e.hasClasses() })

	state(opv1.ManagedStorageClass)
	e.within(prompt, func() error { return e.isClass(standardStorageClass("true")) })
	state(opv1.RemovedStorageClass)
	e.within(prompt, func() error { return e.hasClasses() })
	e.awaitAvailable()
	state("")
	e.within(prompt, func() error { return e.isClass(standardStorageClass("true")) })
	e.awaitAvailable()
}

// TestCinderUpgrade: conditions that only earlier releases wrote are removed.
func TestCinderUpgrade(t *testing.T) {
	t.Parallel()
	stale := []string{
		"ConfigSyncDegraded", "StorageClassControllerDegraded", "VolumeSnapshotClassControllerDegraded",
		"OpenStackCinderDriverControlPlaneStaticResourcesControllerDegraded",
	}
	e := newCinder(t, options{Before: func(e *env) {
		e.changeDriverStatus(func(s *opv1.ClusterCSIDriverStatus) {
			for _, name := range stale {
				s.Conditions = append(s.Conditions, opv1.OperatorCondition{
					Type: name, Status: opv1.ConditionTrue, Reason: "Old", Message: "old", LastTransitionTime: metav1.Now(),
				})
			}
		})
	}})
	e.awaitAvailable()
	for _, name := range stale {
		e.must(e.hasNoCondition(name))
	}
}

// TestCinderPods: what earlier releases set wrongly in the pods (faults 66 to 70).
func TestCinderPods(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.awaitAvailable()
	for name, services := range map[string][2]string{cinderController: {"true", "false"}, cinderNode: {"false", "true"}} {
		w, err := e.workload(name)
		e.must(err)
		c, err := w.container("csi-driver")
		e.must(err)
		for argumentName, want := range map[string]string{
			"provide-controller-service": services[0], "provide-node-service": services[1], "with-topology": "$(ENABLE_TOPOLOGY)",
		} {
			if got, _ := argument(c, argumentName); got != want {
				t.Errorf("%s has --%s=%s, want %s", name, argumentName, got, want)
			}
		}
		if got := topologySource(c); got != cloudConf+"/"+topologyKey {
			t.Errorf("ENABLE_TOPOLOGY of %s is from %q, want %s", name, got, cloudConf+"/"+topologyKey)
		}
		if _, found := argument(c, "nodeid"); found {
			t.Errorf("%s has the deprecated --nodeid", name)
		}
		if p := c.LivenessProbe; p == nil || p.TimeoutSeconds != 10 || p.PeriodSeconds != 30 {
			t.Errorf("the liveness probe of %s is %v, want one with 10 s of 30 s", name, p)
		}
		if onHost := name == cinderNode; w.Pod.HostNetwork != onHost {
			t.Errorf("hostNetwork of %s is %t, want %t", name, w.Pod.HostNetwork, onHost)
		}
		for _, c := range w.containers() {
			for _, arg := range c.Args {
				if strings.Contains(arg, "Topology=") || strings.Contains(arg, "${") {
					t.Errorf("container %s of %s has the argument %s", c.Name, name, arg)
				}
			}
		}
	}
}

func topologySource(c corev1.Container) string {
	for _, variable := range c.Env {
		if variable.Name == "ENABLE_TOPOLOGY" && variable.ValueFrom != nil && variable.ValueFrom.ConfigMapKeyRef != nil {
			return variable.ValueFrom.ConfigMapKeyRef.Name + "/" + variable.ValueFrom.ConfigMapKeyRef.Key
		}
	}
	return ""
}

// TestCinderNeedsNothingOfManila: the copy of cloud-provider-config that is kept for the Manila operator may be there, go and be
// missing (fault 1.11-10).
func TestCinderNeedsNothingOfManila(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Cloud: simulator.Config{TLS: true}, Before: func(e *env) {
		e.putConfigMap(operatorNamespace, cloudProviderConfig, map[string]string{"config": "[Global]\n", caKeyOfCloudProvider: "a CA for Manila"})
	}})
	e.awaitAvailable()
	e.awaitNoWrites()
	before := e.driverState()
	e.must(e.guest.kube.CoreV1().ConfigMaps(operatorNamespace).Delete(t.Context(), cloudProviderConfig, metav1.DeleteOptions{}))
	e.expectNoWritesFor(3 * time.Second)
	e.must(e.stillHas(before))
	e.restartOperator()
	e.triggerZoneProbe()
	e.awaitAvailable()
	e.awaitNoWrites()
	e.must(e.stillHas(before))
	if got := before.conf[caKeyOfCloudProvider]; got != string(e.ca) {
		t.Errorf("the driver's CA is %q, want that of the cloud", got)
	}
}

// TestCinderUnmanaged: nothing is written while an administrator keeps the operator from it, not even about the cloud.
func TestCinderUnmanaged(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
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
