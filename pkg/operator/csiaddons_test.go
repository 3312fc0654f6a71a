package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
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

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	cinder "github.com/openstack-csi/csi-operator/assets/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/host"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// addonsTimeout limits each wait of these tests.
const addonsTimeout = time.Minute

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
	touched  int
}

func cinderPlugin() plugin.Driver {
	return plugin.Driver{
		Name: opv1.CinderCSIDriver, ConditionPrefix: "OpenStackCinder", Assets: cinder.Assets(),
	}
}

func newAddonsFixture(t *testing.T) *addonsFixture {
	t.Helper()
	driver := &opv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: string(opv1.CinderCSIDriver)}}
	driver.Spec.ManagementState = opv1.Managed
	driver.Spec.ObservedConfig.Raw = []byte(observedConfig)
	f := &addonsFixture{
		T: t, operator: newTestOperator(t, flavour.Standalone, cinderPlugin()), driver: driver,
	}
	f.cluster = clustertest.New(t, clustertest.Seed{
		OperatorNamespace: "operators", ClusterCSIDriver: driver,
		Config: infrastructure(configv1.HighlyAvailableTopologyMode),
	})
	f.kube = f.cluster.Guest
	f.clock = clocktesting.NewFakeClock(time.Unix(1_000_000_000, 0))
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
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.run(ctx)
	}()
	f.Cleanup(func() {
		cancel()
		<-ended
	})
}

// eventually waits until a comparison succeeds.
func (f *addonsFixture) eventually(compare func() is.Comparison) {
	f.Helper()
	_ = wait.PollUntilContextTimeout(f.Context(), 50*time.Millisecond, addonsTimeout, true,
		func(context.Context) (bool, error) { return compare()().Success(), nil })
	assert.Assert(f, compare(), "waited %v", addonsTimeout)
}

// installCRD creates the CRD of CSI-Addons.
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
	var granted atomic.Bool
	fake.PrependReactor("*", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		if granted.Load() {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
	})
	return func() { granted.Store(true) }
}

// metadata returns the fake of the client that reads the CRD.
func (f *addonsFixture) metadata() *clienttesting.Fake {
	return &f.cluster.Side(flavour.Guest).Metadata.(*metadatafake.FakeMetadataClient).Fake
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

// rolledOut compares the sequence of pods of both workloads: with CSI-Addons or without.
func (f *addonsFixture) rolledOut(want ...bool) func() is.Comparison {
	return func() is.Comparison {
		got := map[string][]bool{}
		for _, resource := range []string{"deployments", "daemonsets"} {
			for _, template := range f.templates(resource) {
				got[resource] = append(got[resource], hasSidecar(template))
			}
		}
		return is.DeepEqual(map[string][]bool{"deployments": want, "daemonsets": want}, got)
	}
}

func hasSidecar(template corev1.PodTemplateSpec) bool {
	return slices.ContainsFunc(template.Spec.Containers, func(c corev1.Container) bool {
		return c.Image == "registry.example/csi_addons_sidecar_image"
	})
}

// hasPolicies compares the number of NetworkPolicies.
func (f *addonsFixture) hasPolicies(want int) func() is.Comparison {
	return func() is.Comparison {
		list, err := f.kube.NetworkingV1().NetworkPolicies("").List(f.Context(), metav1.ListOptions{})
		assert.NilError(f, err)
		return is.Len(list.Items, want)
	}
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
	f.touched++
	f.driver.Annotations = map[string]string{"touched": strconv.Itoa(f.touched)}
	f.cluster.State.Set(f.T, f.driver)
}

func TestPodsRollOutOnceWhenCSIAddonsComeAndGo(t *testing.T) {
	t.Parallel()
	const name = "openstack-cinder-csi-driver-csi-addons"
	granted := []string{
		"Role " + name, "RoleBinding " + name + "-controller", "RoleBinding " + name + "-node",
		"port csi-addons-m",
	}
	f := newAddonsFixture(t)
	f.start()
	f.eventually(f.rolledOut(false))
	f.eventually(f.isActive(opv1.ConditionFalse, "NoCustomResourceDefinition"))
	f.installCRD()
	f.eventually(f.rolledOut(false, true))
	f.eventually(f.isActive(opv1.ConditionTrue, "AsExpected"))
	f.eventually(f.hasPolicies(1))
	f.eventually(f.hasGrants(granted...))
	f.removeCRD()
	f.eventually(f.isInstalled(false))
	f.clock.Step(removalDelay - time.Second)
	f.mustRepairPolicies()
	f.installCRD() // as an update of CSI-Addons does
	f.eventually(f.isInstalled(true))
	f.mustRepairPolicies()
	f.clock.Step(removalDelay)
	f.mustRepairPolicies()
	f.removeCRD()
	f.eventually(f.isInstalled(false))
	f.clock.Step(removalDelay)
	f.eventually(func() is.Comparison {
		f.touch()
		return f.hasPolicies(0)()
	})
	f.eventually(f.hasGrants())
	f.eventually(f.rolledOut(false, true, false))
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

// hasGrants compares the Roles, RoleBindings and ports of Services that are for CSI-Addons.
func (f *addonsFixture) hasGrants(want ...string) func() is.Comparison {
	return func() is.Comparison {
		roles, errRoles := f.kube.RbacV1().Roles("").List(f.Context(), metav1.ListOptions{})
		bindings, errBindings := f.kube.RbacV1().RoleBindings("").List(f.Context(), metav1.ListOptions{})
		services, errServices := f.kube.CoreV1().Services("").List(f.Context(), metav1.ListOptions{})
		assert.NilError(f, errors.Join(errRoles, errBindings, errServices))
		var got []string
		for _, role := range roles.Items {
			got = append(got, "Role "+role.Name)
		}
		for _, binding := range bindings.Items {
			got = append(got, "RoleBinding "+binding.Name)
		}
		for _, service := range services.Items {
			for _, port := range service.Spec.Ports {
				got = append(got, "port "+port.Name)
			}
		}
		got = slices.DeleteFunc(got, func(name string) bool { return !strings.Contains(name, "addons") })
		return is.DeepEqual(want, got, cmpopts.EquateEmpty())
	}
}

// mustRepairPolicies deletes the NetworkPolicies, and waits until the operator has created them.
func (f *addonsFixture) mustRepairPolicies() {
	f.Helper()
	policies := f.kube.NetworkingV1()
	list, err := policies.NetworkPolicies("").List(f.Context(), metav1.ListOptions{})
	assert.Assert(f, err == nil && len(list.Items) == 1, "NetworkPolicies: %v (%v)", list, err)
	assert.NilError(f, policies.NetworkPolicies(list.Items[0].Namespace).
		Delete(f.Context(), list.Items[0].Name, metav1.DeleteOptions{}))
	f.eventually(func() is.Comparison {
		f.touch() // the operator does not watch the object
		return f.hasPolicies(1)()
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
	grant := forbid(f.metadata(), "customresourcedefinitions")
	f.installCRD()
	f.start()
	f.eventually(f.rolledOut(false))
	f.eventually(f.isActive(opv1.ConditionFalse, "Forbidden"))
	f.eventually(f.reports("customresourcedefinitions"))
	grant()
	f.eventually(f.rolledOut(false, true))
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
	f.eventually(f.rolledOut(true))
	f.eventually(f.reports("networkpolicies"))
	f.eventually(f.isActive(opv1.ConditionFalse, "Forbidden"))
	f.eventually(func() is.Comparison {
		c := f.cluster.State.Condition(t, "OpenStackCinderDriverCSIAddonsControllerDegraded")
		text := string(c.Status) + " " + c.Reason + " " + c.Message
		return is.Regexp("(?s)^False Forbidden .*networkpolicies", text)
	})
}

// Without images the operator deletes what it created with them, and its conditions. What it may
// not delete it cannot have created, and it does not try again.
func TestObjectsOfCSIAddonsAreRemovedWithItsImages(t *testing.T) {
	t.Parallel()
	for name, forbidden := range map[string]bool{"permitted": false, "forbidden": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAddonsFixture(t)
			f.installCRD()
			d := f.assembled(process())
			f.cluster.Start(t)
			controller, err := d.csiAddonsResources("OpenStackCinderDriverCSIAddonsController")
			assert.NilError(t, err)
			sync := func() {
				t.Helper()
				err := controller.Sync(t.Context(), factory.NewSyncContext("test", d.events))
				assert.NilError(t, err)
			}
			f.eventually(func() is.Comparison {
				sync()
				return f.isActive(opv1.ConditionTrue, "AsExpected")()
			})
			assert.Check(t, f.hasPolicies(1)())
			if forbidden {
				forbid(&f.kube.Fake, "*")
			}
			clear(d.settings.Images)
			f.clock.Step(deletionDelay)
			sync()
			assert.Check(t, is.Len(f.cluster.State.SortedConditions(t), 0), "conditions")
			f.kube.ClearActions()
			sync()
			assert.Check(t, is.Len(f.kube.Actions(), 0), "a further sync")
			if !forbidden {
				assert.Check(t, f.hasPolicies(0)())
				assert.Check(t, f.hasGrants()())
			}
		})
	}
}

// A restart without the CRD does not end removalDelay.
func TestCSIAddonsStayForAWhileAfterARestartWithoutTheCRD(t *testing.T) {
	t.Parallel()
	for container, want := range map[string]bool{"csi-addons": true, "csi-driver": false} {
		f := newAddonsFixture(t)
		d := f.assembled(process())
		nodes := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: d.csiAddons.namespace, Name: d.csiAddons.daemonSet,
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
	const name = "openstack-cinder-csi-driver-csi-addons"
	f := newAddonsFixture(t)
	f.operator.settings.CSIAddons.APIServerTokens = false
	f.operator.drivers[0].Setup = func(d plugin.Dependencies) (plugin.Components, error) {
		return plugin.Components{
			Choices: plugin.NewChoices(d.Cluster, "cinder-csi-config", choice.Cinder),
		}, nil
	}
	delete(f.operator.settings.Images, bundle.CSIAddonsSidecarImage)
	f.installCRD()
	f.start()
	f.eventually(f.rolledOut(false))
	const config = "apiVersion: config.csi.openstack.org/v1alpha1\nkind: CinderConfig\ncsiAddons: " +
		"{image: registry.example/csi_addons_sidecar_image, apiServerTokens: %v}\n"
	chosen := choices(fmt.Sprintf(config, true))
	clustertest.Put(t, f.kube, chosen)
	f.eventually(f.rolledOut(false, true))
	f.eventually(f.lastPodsAre(true, true, true))
	f.eventually(f.hasPolicies(1))
	f.clock.Step(deletionDelay)
	clustertest.Put(t, f.kube, choices(fmt.Sprintf(config, false)))
	f.eventually(f.hasPolicies(0))
	f.eventually(f.lastPodsAre(false, true, false))
	f.eventually(f.hasGrants("Role "+name, "RoleBinding "+name+"-node"))
	clustertest.Delete(t, f.kube, chosen)
	f.eventually(f.lastPodsAre(false, false, false))
}

// lastPodsAre compares the last pods of both workloads: which have CSI-Addons, and whether they
// accept tokens for the API server.
func (f *addonsFixture) lastPodsAre(
	inDeployment, inDaemonSet, acceptTokens bool,
) func() is.Comparison {
	return func() is.Comparison {
		got := map[string][2]bool{}
		for _, resource := range []string{"deployments", "daemonsets"} {
			written := f.templates(resource)
			last := written[len(written)-1]
			got[resource] = [2]bool{
				hasSidecar(last), slices.ContainsFunc(last.Spec.Containers, func(c corev1.Container) bool {
					return slices.Contains(c.Args, "--token-audience=")
				}),
			}
		}
		return is.DeepEqual(map[string][2]bool{
			"deployments": {inDeployment, acceptTokens}, "daemonsets": {inDaemonSet, acceptTokens},
		}, got)
	}
}

// assembled returns the driver. Nothing runs.
func (f *addonsFixture) assembled(p host.Process) *driver {
	f.Helper()
	p.Clock = f.clock
	drivers, err := f.operator.fillAssets(f.cluster.Cluster, p)
	assert.NilError(f, errors.Join(err, setUp(drivers)))
	return drivers[0]
}

func TestConditionSaysThatGuestClustersHaveNoNetworkFence(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.HyperShift, plugins()...)[0]
	assert.Check(t, is.Contains(d.activeMessage(), "NetworkFence is not available in a guest"))
	assert.Check(t, !strings.Contains(d.grantAdvice(), "openshift"), "a manifest for other clusters")
}
