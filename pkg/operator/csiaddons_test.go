package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	cinder "github.com/openstack-csi/csi-operator/assets/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/host"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	// addonsTimeout limits each wait of these tests.
	addonsTimeout = time.Minute
	addonsRole    = "openstack-cinder-csi-driver-csi-addons"
	addonsPolicy  = "openstack-cinder-csi-driver-ingress-csi-addons"
)

// addonsFixture is an operator of Cinder with the images of CSI-Addons, in a fake cluster.
type addonsFixture struct {
	*testing.T

	kube     *fake.Clientset
	clock    *clocktesting.FakeClock
	events   events.InMemoryRecorder
	operator *operator
	cluster  *clustertest.Fake
	addons   *csiAddons
	driver   *opv1.ClusterCSIDriver
}

func cinderPlugin() plugin.Driver {
	return plugin.Driver{
		ConditionPrefix: "OpenStackCinder", Assets: cinder.Assets(),
	}
}

func newAddonsFixture(t *testing.T) *addonsFixture {
	t.Helper()
	driver := &opv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: string(opv1.CinderCSIDriver)}}
	driver.Spec.ManagementState = opv1.Managed
	driver.Spec.ObservedConfig.Raw = []byte(observedConfig)
	cluster := clustertest.New(t, clustertest.Seed{
		OperatorNamespace: "operators", ClusterCSIDriver: driver,
		Config: infrastructure(flavour.Standalone),
	})
	f := &addonsFixture{
		T: t, operator: newTestOperator(t, flavour.Standalone, cinderPlugin()), driver: driver,
		cluster: cluster, kube: cluster.Guest,
		clock: clocktesting.NewFakeClock(time.Unix(1_000_000_000, 0)),
	}
	f.mayDelete(true)
	_, addons, err := loadBundles(f.operator.drivers, flavour.Standalone)
	assert.NilError(t, err)
	f.operator.csiAddons = addons
	f.operator.settings.CSIAddons.APIServerTokens = true // both workloads have the containers
	for _, variables := range bundle.AllImageVariables(flavour.Standalone, addons) {
		f.operator.settings.Images[variables[0]] = "registry.example/" + strings.ToLower(variables[0])
	}
	return f
}

// start runs the operator until the test ends.
func (f *addonsFixture) start() {
	f.Helper()
	p := process()
	f.events = p.Events.(events.InMemoryRecorder)
	drivers := []*driver{f.assembled(p)}
	f.addons = drivers[0].csiAddons
	r := &runner{drivers: drivers, controllers: built(f.T, drivers)}
	// The ClusterCSIDriver contains what this controller would write.
	r.controllers[always] = slices.DeleteFunc(r.controllers[always], func(c factory.Controller) bool {
		return c.Name() == "ConfigObserver"
	})
	var running sync.WaitGroup
	running.Go(func() { r.run(f.Context()) })
	f.Cleanup(running.Wait) // the context is done before
}

// eventually waits until a comparison succeeds.
func (f *addonsFixture) eventually(compare func() is.Comparison) {
	f.Helper()
	_ = wait.PollUntilContextTimeout(f.Context(), 50*time.Millisecond, addonsTimeout, true,
		func(context.Context) (bool, error) { return compare()().Success(), nil })
	assert.Assert(f, compare(), "waited %v", addonsTimeout)
}

func (f *addonsFixture) installCRD() {
	f.Helper()
	clustertest.PutCRD(f.T, f.cluster.Side(flavour.Guest).Metadata, bundle.CSIAddonsCRD)
}

func (f *addonsFixture) removeCRD() {
	f.Helper()
	clustertest.DeleteCRD(f.T, f.cluster.Side(flavour.Guest).Metadata, bundle.CSIAddonsCRD)
}

// forbid rejects requests for a resource until the returned function is called.
func forbid(fake *clienttesting.Fake, resource string) (grant func()) {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
	return refuse(fake, "*", resource, err)
}

// templates returns the pod templates that the operator wrote to a workload, without repetitions.
func (f *addonsFixture) templates(resource string) []corev1.PodTemplateSpec {
	var written []corev1.PodTemplateSpec
	for _, action := range f.kube.Actions() {
		write, ok := action.(clienttesting.CreateAction) // an UpdateAction has the same methods
		if !ok || action.GetResource().Resource != resource || action.GetSubresource() != "" {
			continue
		}
		switch object := write.GetObject().(type) {
		case *appsv1.Deployment:
			written = append(written, object.Spec.Template)
		case *appsv1.DaemonSet:
			written = append(written, object.Spec.Template)
		}
	}
	return slices.CompactFunc(written, func(a, b corev1.PodTemplateSpec) bool {
		return equality.Semantic.DeepEqual(a, b)
	})
}

// What the pods of a workload contain.
const (
	driverOnly = "the driver"
	withAddons = "the driver and CSI-Addons"
	withTokens = "the driver and CSI-Addons, which accepts tokens for the API server"
)

func contents(template corev1.PodTemplateSpec) string {
	for _, c := range template.Spec.Containers {
		switch {
		case c.Image != "registry.example/csi_addons_sidecar_image":
		case slices.Contains(c.Args, "--token-audience="):
			return withTokens
		default:
			return withAddons
		}
	}
	return driverOnly
}

// rolledOut compares the sequence of pods of both workloads.
func (f *addonsFixture) rolledOut(want ...string) func() is.Comparison {
	return func() is.Comparison {
		got := map[string][]string{"Deployment": f.pods("deployments"), "DaemonSet": f.pods("daemonsets")}
		return is.DeepEqual(map[string][]string{"Deployment": want, "DaemonSet": want}, got)
	}
}

// lastPods compares the last pods of each workload.
func (f *addonsFixture) lastPods(deployment, daemonSet string) func() is.Comparison {
	return func() is.Comparison {
		d, n := f.pods("deployments"), f.pods("daemonsets")
		return is.DeepEqual([]string{deployment, daemonSet}, []string{d[len(d)-1], n[len(n)-1]})
	}
}

func (f *addonsFixture) pods(resource string) (written []string) {
	for _, template := range f.templates(resource) {
		written = append(written, contents(template))
	}
	return written
}

// reports expects exactly one event that says that the API server refuses a resource.
func (f *addonsFixture) reports(resource string) func() is.Comparison {
	return func() is.Comparison {
		found := clustertest.Messages(f.events, "CSIAddonsForbidden")
		return is.Len(slices.DeleteFunc(found, func(message string) bool {
			return !strings.Contains(message, resource)
		}), 1)
	}
}

// touch changes the ClusterCSIDriver, which makes each controller reconcile.
func (f *addonsFixture) touch() {
	f.Helper()
	f.driver.Annotations = map[string]string{"touched": time.Now().String()}
	f.cluster.State.Set(f.T, f.driver)
}

func TestPodsRollOutOnceWhenCSIAddonsComeAndGo(t *testing.T) {
	t.Parallel()
	f := newAddonsFixture(t)
	f.start()
	f.eventually(f.rolledOut(driverOnly))
	f.eventually(f.isActive(opv1.ConditionFalse, "NoCustomResourceDefinition"))
	f.installCRD()
	f.eventually(f.rolledOut(driverOnly, withTokens))
	f.eventually(f.isActive(opv1.ConditionTrue, "AsExpected"))
	f.eventually(f.hasObjects(addonsRole, addonsRole+"-controller", addonsRole+"-node",
		"csi-addons-m", addonsPolicy))
	f.removeCRD()
	f.eventually(f.isInstalled(false))
	f.clock.Step(removalDelay - time.Second)
	f.mustRepairPolicy()
	f.installCRD() // as an update of CSI-Addons does
	f.eventually(f.isInstalled(true))
	f.mustRepairPolicy()
	f.clock.Step(removalDelay)
	f.mustRepairPolicy()
	f.removeCRD()
	f.eventually(f.isInstalled(false))
	f.clock.Step(removalDelay)
	f.eventually(func() is.Comparison {
		f.touch()
		return f.hasObjects()()
	})
	f.eventually(f.rolledOut(driverOnly, withTokens, driverOnly))
	for _, resource := range []string{"deployments", "daemonsets"} {
		templates := f.templates(resource)
		assert.Check(t, is.DeepEqual(templates[0], templates[2]),
			"pods of %s before and after CSI-Addons", resource)
	}
}

// isInstalled compares the operator's cache of the CRD.
func (f *addonsFixture) isInstalled(want bool) func() is.Comparison {
	return func() is.Comparison { return is.Equal(f.addons.crd.Exists(), want) }
}

// hasObjects compares the names of what is only for CSI-Addons: of Roles, RoleBindings, ports of
// Services and NetworkPolicies.
func (f *addonsFixture) hasObjects(want ...string) func() is.Comparison {
	return func() is.Comparison {
		var got []string
		all := metav1.ListOptions{}
		roles, errRoles := f.kube.RbacV1().Roles("").List(f.Context(), all)
		bindings, errBindings := f.kube.RbacV1().RoleBindings("").List(f.Context(), all)
		services, errServices := f.kube.CoreV1().Services("").List(f.Context(), all)
		policies, errPolicies := f.kube.NetworkingV1().NetworkPolicies("").List(f.Context(), all)
		assert.NilError(f, errors.Join(errRoles, errBindings, errServices, errPolicies))
		for _, role := range roles.Items {
			got = append(got, role.Name)
		}
		for _, binding := range bindings.Items {
			got = append(got, binding.Name)
		}
		for _, service := range services.Items {
			for _, port := range service.Spec.Ports {
				got = append(got, port.Name)
			}
		}
		for _, policy := range policies.Items {
			got = append(got, policy.Name)
		}
		got = slices.DeleteFunc(got, func(name string) bool { return !strings.Contains(name, "addons") })
		return is.DeepEqual(want, got, cmpopts.EquateEmpty())
	}
}

// mustRepairPolicy deletes the NetworkPolicy, and waits until the operator has created it.
func (f *addonsFixture) mustRepairPolicy() {
	f.Helper()
	policies := f.kube.NetworkingV1().NetworkPolicies(flavour.DefaultNamespace)
	assert.NilError(f, policies.Delete(f.Context(), addonsPolicy, metav1.DeleteOptions{}))
	f.eventually(func() is.Comparison {
		f.touch() // the operator does not watch the object
		_, err := policies.Get(f.Context(), addonsPolicy, metav1.GetOptions{})
		return is.Nil(err)
	})
}

// mayDelete answers whether the operator may delete an object.
func (f *addonsFixture) mayDelete(allowed bool) {
	f.kube.PrependReactor("create", "selfsubjectaccessreviews",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &authorizationv1.SelfSubjectAccessReview{
				Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed},
			}, nil
		})
}

// isActive compares the condition about CSI-Addons.
func (f *addonsFixture) isActive(want opv1.ConditionStatus, reason string) func() is.Comparison {
	return func() is.Comparison {
		got := f.cluster.State.Condition(f, "OpenStackCinderCSIAddonsActive")
		return is.Equal(string(got.Status)+" "+got.Reason, string(want)+" "+reason)
	}
}

func TestDriverRunsWithoutPermissionToWatchTheCRD(t *testing.T) {
	t.Parallel()
	f := newAddonsFixture(t)
	client := f.cluster.Side(flavour.Guest).Metadata.(*metadatafake.FakeMetadataClient)
	grant := forbid(&client.Fake, "customresourcedefinitions")
	f.installCRD()
	f.start()
	f.eventually(f.rolledOut(driverOnly))
	f.eventually(f.isActive(opv1.ConditionFalse, "Forbidden"))
	f.eventually(f.reports("customresourcedefinitions"))
	grant()
	f.eventually(f.rolledOut(driverOnly, withTokens))
	f.eventually(f.isActive(opv1.ConditionTrue, "AsExpected"))
}

// While the API server refuses objects, the driver is not degraded, and the operator is not either
// under cluster-storage-operator.
func TestDriverRunsWithoutObjectsOfCSIAddons(t *testing.T) {
	t.Parallel()
	f := newAddonsFixture(t)
	forbid(&f.kube.Fake, "networkpolicies")
	f.installCRD()
	f.start()
	f.eventually(f.rolledOut(withTokens))
	f.eventually(f.reports("networkpolicies"))
	f.eventually(f.isActive(opv1.ConditionFalse, "Forbidden"))
	f.eventually(func() is.Comparison {
		c := f.cluster.State.Condition(t, "OpenStackCinderDriverCSIAddonsControllerDegraded")
		text := string(c.Status) + " " + c.Reason + " " + c.Message
		return is.Regexp("(?s)^False Forbidden .*networkpolicies", text)
	})
}

// Without images the operator deletes what it created with them, and its conditions. What it may
// not delete it cannot have created, so it does not try to.
func TestObjectsOfCSIAddonsAreRemovedWithItsImages(t *testing.T) {
	t.Parallel()
	for _, forbidden := range []bool{false, true} {
		f := newAddonsFixture(t)
		f.installCRD()
		d := f.assembled(process())
		sync := syncer(t, d, d.csiAddonsResources)
		f.cluster.Start(t)
		f.eventually(func() is.Comparison {
			assert.NilError(t, sync())
			return f.isActive(opv1.ConditionTrue, "AsExpected")()
		})
		assert.Check(t, f.hasObjects(addonsRole, addonsRole+"-controller", addonsRole+"-node",
			addonsPolicy)())
		f.mayDelete(!forbidden)
		if forbidden {
			refuse(&f.kube.Fake, "delete", "*", errors.New("the operator may not delete it"))
		}
		clear(d.settings.Images)
		f.clock.Step(deletionDelay)
		assert.NilError(t, sync())
		assert.Check(t, is.Len(f.cluster.State.SortedConditions(t), 0), "forbidden: %t", forbidden)
		f.kube.ClearActions()
		assert.NilError(t, sync())
		assert.Check(t, is.Len(f.kube.Actions(), 0), "a further sync, forbidden: %t", forbidden)
		if !forbidden {
			assert.Check(t, f.hasObjects()())
		}
	}
}

// A restart without the CRD does not end removalDelay.
func TestCSIAddonsStayForAWhileAfterARestartWithoutTheCRD(t *testing.T) {
	t.Parallel()
	for container, want := range map[string]bool{"csi-addons": true, "csi-driver": false} {
		f := newAddonsFixture(t)
		d := f.assembled(process())
		_, object, err := d.workload(bundle.NodeWorkload, flavour.Guest)
		assert.NilError(t, err)
		nodes := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace, Name: object.Name,
		}}
		nodes.Spec.Template.Spec.Containers = []corev1.Container{{Name: container}}
		assert.NilError(t, f.kube.Tracker().Add(nodes))
		f.cluster.Start(t)
		assert.Check(t, is.Equal(d.csiAddons.active(), want), "%s: CSI-Addons are active", container)
		f.clock.Step(removalDelay)
		assert.Check(t, !d.csiAddons.active(), "%s: CSI-Addons stay active", container)
	}
}

// The image of the containers is in the choices. The controller of this project needs no controller
// service of Cinder, so the pods of the Deployment have the containers only with API server tokens.
func TestChoicesConfigureCSIAddonsWithoutARestart(t *testing.T) {
	t.Parallel()
	f := newAddonsFixture(t)
	f.operator.settings.CSIAddons.APIServerTokens = false
	f.operator.drivers[0].Setup = setUpChoices
	delete(f.operator.settings.Images, bundle.CSIAddonsSidecarImage)
	f.installCRD()
	f.start()
	f.eventually(f.rolledOut(driverOnly))
	const config = "apiVersion: config.csi.openstack.org/v1alpha1\nkind: CinderConfig\ncsiAddons: " +
		"{image: registry.example/csi_addons_sidecar_image, apiServerTokens: %v}\n"
	chosen := choices(fmt.Sprintf(config, true))
	clustertest.Put(t, f.kube, chosen)
	f.eventually(f.rolledOut(driverOnly, withTokens))
	f.eventually(f.hasObjects(addonsRole, addonsRole+"-controller", addonsRole+"-node",
		"csi-addons-m", addonsPolicy))
	f.clock.Step(deletionDelay)
	clustertest.Put(t, f.kube, choices(fmt.Sprintf(config, false)))
	f.eventually(f.hasObjects(addonsRole, addonsRole+"-node"))
	f.eventually(f.lastPods(driverOnly, withAddons))
	chosen.Data = nil
	clustertest.Put(t, f.kube, chosen)
	f.eventually(f.lastPods(driverOnly, driverOnly))
}

// assembled returns the driver. Nothing runs.
func (f *addonsFixture) assembled(p host.Process) *driver {
	f.Helper()
	p.Clock = f.clock
	return filled(f.T, f.operator, f.cluster, p)[0]
}

func TestConditionSaysThatGuestClustersHaveNoNetworkFence(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.HyperShift, plugins()...)[0]
	assert.Check(t, is.Contains(d.activeMessage(), "NetworkFence is not available in a guest"))
	assert.Check(t, !strings.Contains(d.grantAdvice(), "openshift"), "a manifest for other clusters")
}
