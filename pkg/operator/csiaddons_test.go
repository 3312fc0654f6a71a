package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsfake "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/v1helpers"

	cinder "github.com/openstack-csi/csi-operator/assets/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// addonsTimeout limits each wait of these tests.
const addonsTimeout = time.Minute

// addonsFixture is an operator of Cinder with the images of CSI-Addons, in a fake cluster.
type addonsFixture struct {
	*testing.T

	kube       *fake.Clientset
	extensions *apiextensionsfake.Clientset
	clock      *clocktesting.FakeClock
	events     events.InMemoryRecorder
	operator   *operator
	cluster    *clustertest.Fake
	addons     *csiAddons
}

func cinderPlugin() plugin.Driver {
	return plugin.Driver{
		Name: opv1.CinderCSIDriver, ConditionPrefix: "OpenStackCinder", Assets: cinder.Assets(),
		Removable: true,
	}
}

func newAddonsFixture(t *testing.T) *addonsFixture {
	t.Helper()
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	infrastructure.Status.ControlPlaneTopology = configv1.HighlyAvailableTopologyMode
	infrastructure.Status.InfrastructureName = "cluster-1"
	driver := &opv1.ClusterCSIDriver{ObjectMeta: metav1.ObjectMeta{Name: string(opv1.CinderCSIDriver)}}
	driver.Spec.ManagementState = opv1.Managed
	driver.Spec.ObservedConfig.Raw = []byte(`{"targetcsiconfig": {"servingInfo": {` +
		`"minTLSVersion": "VersionTLS12", "cipherSuites": ["TLS_A"]}}}`)
	f := &addonsFixture{T: t, operator: newTestOperator(t, flavour.Standalone, cinderPlugin())}
	f.cluster = clustertest.New(t, clustertest.Seed{
		OperatorNamespace: "operators", ClusterCSIDriver: driver,
		Config: []runtime.Object{infrastructure},
	})
	f.kube = f.cluster.Guest
	f.extensions = f.cluster.Side(flavour.Guest).APIExtensions.(*apiextensionsfake.Clientset)
	f.clock = clocktesting.NewFakeClock(time.Unix(1_000_000_000, 0))
	addons, err := loadCSIAddons(f.operator.drivers, flavour.Standalone)
	if err != nil {
		t.Fatal(err)
	}
	f.operator.csiAddons = addons
	for _, variables := range bundle.AllImageVariables(flavour.Standalone, addons) {
		f.operator.settings.Images[variables[0]] = "registry.example/" + strings.ToLower(variables[0])
	}
	return f
}

// start runs the operator until the test ends.
func (f *addonsFixture) start() {
	f.Helper()
	p := process()
	p.Clock = f.clock
	f.events = p.Events.(events.InMemoryRecorder)
	drivers, err := f.operator.fillAssets(f.cluster.Cluster, p)
	if err == nil {
		err = setUp(drivers)
	}
	if err != nil {
		f.Fatal(err)
	}
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

// eventually waits until check returns nil.
func (f *addonsFixture) eventually(check func() error) {
	f.Helper()
	var last error
	err := wait.PollUntilContextTimeout(f.Context(), 50*time.Millisecond, addonsTimeout, true,
		func(context.Context) (bool, error) {
			last = check()
			return last == nil, nil
		})
	if err != nil {
		f.Fatalf("waited %v: %v", addonsTimeout, last)
	}
}

// installCRD creates the CRD of CSI-Addons.
func (f *addonsFixture) installCRD() {
	f.Helper()
	object := crd(isEstablished(apiextensionsv1.ConditionTrue))
	object.Name = bundle.CSIAddonsCRD
	if err := f.extensions.Tracker().Add(object); err != nil {
		f.Fatal(err)
	}
}

func (f *addonsFixture) removeCRD() {
	f.Helper()
	err := f.extensions.ApiextensionsV1().CustomResourceDefinitions().
		Delete(f.Context(), bundle.CSIAddonsCRD, metav1.DeleteOptions{})
	if err != nil {
		f.Fatal(err)
	}
}

// forbid rejects requests for a resource until the returned function is called. The clock moves on
// between two requests.
func (f *addonsFixture) forbid(fake *clienttesting.Fake, resource string) (grant func()) {
	var granted atomic.Bool
	fake.PrependReactor("*", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		if granted.Load() {
			return false, nil, nil
		}
		f.clock.Step(refusalPeriod)
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
	})
	return func() { granted.Store(true) }
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

// rolledOut returns nil if both workloads had this sequence of pods: with CSI-Addons or without.
func (f *addonsFixture) rolledOut(want ...bool) error {
	for _, resource := range []string{"deployments", "daemonsets"} {
		var got []bool
		for _, template := range f.templates(resource) {
			got = append(got, slices.ContainsFunc(template.Spec.Containers, func(c corev1.Container) bool {
				return c.Image == "registry.example/csi_addons_sidecar_image"
			}))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("pods of %s have CSI-Addons (-want +got):\n%s", resource, diff)
		}
	}
	return nil
}

// hasPolicies returns a check of the number of NetworkPolicies.
func (f *addonsFixture) hasPolicies(want int) func() error {
	return func() error {
		list, err := f.kube.NetworkingV1().NetworkPolicies("").List(f.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) != want {
			err = fmt.Errorf("there are %d NetworkPolicies, want %d", len(list.Items), want)
		}
		return err
	}
}

// reports returns nil if exactly one event says that the operator may not watch an object.
func (f *addonsFixture) reports(object string) error {
	var found []string
	for _, event := range f.events.Events() {
		if event.Reason == "CSIAddonsForbidden" && strings.Contains(event.Message, object) {
			found = append(found, event.Message)
		}
	}
	if len(found) != 1 {
		return fmt.Errorf("events about %s: %q", object, found)
	}
	return nil
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
	f.eventually(func() error { return f.rolledOut(false) })
	f.eventually(f.isActive(opv1.ConditionFalse, "NoCustomResourceDefinition"))
	f.installCRD()
	f.eventually(func() error { return f.rolledOut(false, true) })
	f.eventually(f.isActive(opv1.ConditionTrue, "AsExpected"))
	f.eventually(f.hasPolicies(1))
	f.eventually(func() error { return f.hasGrants(granted...) })
	f.removeCRD()
	f.eventually(f.isInstalled(false))
	f.mustRepairPolicies()
	f.clock.Step(removalDelay - time.Second)
	f.mustRepairPolicies()
	f.installCRD() // as an update of CSI-Addons does
	f.eventually(f.isInstalled(true))
	f.clock.Step(removalDelay)
	f.mustRepairPolicies()
	f.removeCRD()
	f.eventually(func() error {
		f.clock.Step(removalDelay)
		return f.hasPolicies(0)()
	})
	f.eventually(func() error { return f.hasGrants() })
	f.eventually(func() error { return f.rolledOut(false, true, false) })
	for _, resource := range []string{"deployments", "daemonsets"} {
		templates := f.templates(resource)
		if diff := cmp.Diff(templates[0], templates[2]); diff != "" {
			t.Errorf("pods of %s before and after CSI-Addons (-before +after):\n%s", resource, diff)
		}
	}
}

// isInstalled returns a check of the operator's cache of the CRD.
func (f *addonsFixture) isInstalled(want bool) func() error {
	return func() error {
		if got := f.addons.crd.established(); got != want {
			return fmt.Errorf("the CRD is established: %v", got)
		}
		return nil
	}
}

// hasGrants compares the Roles, RoleBindings and ports of Services that are for CSI-Addons.
func (f *addonsFixture) hasGrants(want ...string) error {
	roles, errRoles := f.kube.RbacV1().Roles("").List(f.Context(), metav1.ListOptions{})
	bindings, errBindings := f.kube.RbacV1().RoleBindings("").List(f.Context(), metav1.ListOptions{})
	services, errServices := f.kube.CoreV1().Services("").List(f.Context(), metav1.ListOptions{})
	if err := errors.Join(errRoles, errBindings, errServices); err != nil {
		return err
	}
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
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		return fmt.Errorf("permissions and ports of CSI-Addons (-want +got):\n%s", diff)
	}
	return nil
}

// mustRepairPolicies deletes the NetworkPolicies, and waits until the operator has created them.
func (f *addonsFixture) mustRepairPolicies() {
	f.Helper()
	policies := f.kube.NetworkingV1()
	list, err := policies.NetworkPolicies("").List(f.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		f.Fatalf("NetworkPolicies are %v (%v), want one", list, err)
	}
	err = policies.NetworkPolicies(list.Items[0].Namespace).
		Delete(f.Context(), list.Items[0].Name, metav1.DeleteOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.eventually(f.hasPolicies(1))
}

// handlers is an informer that keeps its handlers.
type handlers struct {
	factory.Informer

	added []cache.ResourceEventHandler
}

func (h *handlers) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	h.added = append(h.added, handler)
	return nil, nil
}

// A guest cluster sends as many events as it wants.
func TestOnlyTheLastEventOfTheCRDIsRepeated(t *testing.T) {
	t.Parallel()
	f, watch := newAddonsFixture(t), &handlers{}
	crd := watchCRD(f.cluster.Cluster, flavour.Guest, bundle.CSIAddonsCRD)
	c := &csiAddons{crd: crd, watch: &optionalInformer{Informer: watch}, clock: f.clock}
	var handled []any
	_, err := c.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) { handled = append(handled, object) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		watch.added[0].OnUpdate(nil, i)
	}
	if n := f.clock.Waiters(); n != 1 {
		t.Errorf("%d timers run, want one", n)
	}
	f.clock.Step(removalDelay)
	if diff := cmp.Diff([]any{0, 1, 2, 2}, handled); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestSettingsAddArgumentsOfTheSidecar(t *testing.T) {
	t.Parallel()
	for tokens, want := range map[bool]int{false: 0, true: 1} {
		f := newAddonsFixture(t)
		f.operator.settings.CSIAddons.APIServerTokens = tokens
		f.installCRD()
		f.start()
		f.eventually(func() error { return f.rolledOut(true) })
		for _, resource := range []string{"deployments", "daemonsets"} {
			got := 0
			for _, container := range f.templates(resource)[0].Spec.Containers {
				if slices.Contains(container.Args, "--token-audience=") {
					got++
				}
			}
			if got != want {
				t.Errorf("%d containers of %s accept tokens for the API server, want %d", got, resource, want)
			}
		}
	}
}

// isActive returns a check of the condition about CSI-Addons.
func (f *addonsFixture) isActive(want opv1.ConditionStatus, reason string) func() error {
	return func() error {
		conditions := f.cluster.State.Conditions(f.T)
		c := v1helpers.FindOperatorCondition(conditions, "OpenStackCinderCSIAddonsActive")
		if c == nil || c.Status != want || c.Reason != reason {
			return fmt.Errorf("the condition is %+v, want %s %s", c, want, reason)
		}
		return nil
	}
}

func TestDriverRunsWithoutPermissionToWatchTheCRD(t *testing.T) {
	t.Parallel()
	f := newAddonsFixture(t)
	grant := f.forbid(&f.extensions.Fake, "customresourcedefinitions")
	permit(&f.kube.Fake, everything())
	f.installCRD()
	f.start()
	f.eventually(func() error { return f.rolledOut(false) })
	f.eventually(f.isActive(opv1.ConditionFalse, "Forbidden"))
	f.eventually(func() error { return f.reports("CustomResourceDefinition " + bundle.CSIAddonsCRD) })
	grant()
	f.eventually(func() error { return f.rolledOut(false, true) })
	f.eventually(f.isActive(opv1.ConditionTrue, "AsExpected"))
}

// While permissions are missing, the driver is not degraded, and the operator is not either under
// cluster-storage-operator. If something else refuses the objects, the driver is degraded.
func TestDriverRunsWithoutObjectsOfCSIAddons(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rules  map[string][]authorizationv1.ResourceRule
		status opv1.ConditionStatus
		reason string
	}{
		"permissions are missing":          {withoutGrants(), opv1.ConditionFalse, "Forbidden"},
		"an admission plugin refuses them": {everything(), opv1.ConditionTrue, "SyncError"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAddonsFixture(t)
			permit(&f.kube.Fake, tt.rules)
			f.forbid(&f.kube.Fake, "networkpolicies")
			f.installCRD()
			f.start()
			f.eventually(func() error { return f.rolledOut(true) })
			f.eventually(func() error { return f.reports("NetworkPolicy") })
			f.eventually(f.isActive(opv1.ConditionFalse, "Forbidden"))
			f.eventually(func() error {
				c := v1helpers.FindOperatorCondition(f.cluster.State.Conditions(t),
					"OpenStackCinderDriverCSIAddonsControllerDegraded")
				if c == nil || c.Status != tt.status || c.Reason != tt.reason ||
					!strings.Contains(c.Message, "networkpolicies") {
					return fmt.Errorf("the condition is %+v, want %s %s", c, tt.status, tt.reason)
				}
				return nil
			})
		})
	}
}

func TestControllersWaitForTheCRDUntilItsRequestsAreForbidden(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "a"}, "b", nil)
	for name, tt := range map[string]struct {
		errs []error
		gap  time.Duration
		want bool
	}{
		"server error": {
			errs: []error{apierrors.NewInternalError(io.EOF), io.EOF, io.EOF}, gap: refusalPeriod,
		},
		"refused twice": {errs: []error{forbidden, forbidden}, gap: refusalPeriod},
		"refused": {
			errs: []error{forbidden, forbidden, forbidden}, gap: refusalPeriod, want: true,
		},
		"refused shortly": {errs: []error{forbidden, forbidden, forbidden}, gap: time.Second},
		"refused rarely":  {errs: []error{forbidden, forbidden, forbidden}, gap: maxGap + 1},
		"not in succession": {
			errs: []error{forbidden, forbidden, io.EOF, forbidden, forbidden}, gap: refusalPeriod,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newAddonsFixture(t)
			crd := watchCRD(f.cluster.Cluster, flavour.Guest, bundle.CSIAddonsCRD)
			recorder := events.NewInMemoryRecorder("test", f.clock)
			i := newOptionalInformer(crd.Informer(), "object a", f.clock, recorder)
			r := cache.NewReflector(nil, &apiextensionsv1.CustomResourceDefinition{}, nil, 0)
			for _, err := range tt.errs {
				i.handle(t.Context(), r, err)
				f.clock.Step(tt.gap)
			}
			if got := i.HasSynced(); got != tt.want || len(recorder.Events()) > 0 != tt.want {
				t.Errorf("synced is %v, events are %v", got, recorder.Events())
			}
		})
	}
}

// addonsEnvironment returns a function that reads these variables, and those of the other images.
func addonsEnvironment(t *testing.T, variables map[string]string) func(string) (string, bool) {
	t.Helper()
	images := newTestOperator(t, flavour.Standalone, cinderPlugin()).settings.Images
	return func(name string) (string, bool) {
		if value, ok := variables[name]; ok {
			return value, true
		}
		value, ok := images[name]
		return value, ok
	}
}

func TestCSIAddonsNeedBothValidImages(t *testing.T) {
	t.Parallel()
	const sidecar, adapter = "CSI_ADDONS_SIDECAR_IMAGE", "CSI_ADDONS_DRIVER_IMAGE"
	for name, tt := range map[string]struct {
		variables     map[string]string
		watched       bool
		warning, want string
	}{
		"none": {},
		"both": {variables: map[string]string{sidecar: "a:1", adapter: "b:1"}, watched: true},
		"only the sidecar": {
			variables: map[string]string{sidecar: "a:1"},
			warning:   "environment variable " + adapter + " is missing",
		},
		"only the adapter": {
			variables: map[string]string{adapter: "b:1"},
			warning:   "environment variable " + sidecar + " is missing",
		},
		"an invalid image": {
			variables: map[string]string{sidecar: "a b", adapter: "b:1"},
			want:      "settings: environment variable " + sidecar + " is not the name of an image",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var flags settings.Flags
			set := pflag.NewFlagSet("operator", pflag.ContinueOnError)
			flags.AddTo(set)
			if err := set.Parse([]string{"--namespace=operators"}); err != nil {
				t.Fatal(err)
			}
			o, err := newOperator("test-operator", []plugin.Driver{cinderPlugin()}, &flags,
				addonsEnvironment(t, tt.variables))
			if tt.want != "" {
				if err == nil || err.Error() != tt.want {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(o.settings.Warnings, "\n"); tt.warning == "" && got != "" ||
				!strings.Contains(got, tt.warning) {
				t.Errorf("warnings are %q, want %q", got, tt.warning)
			}
			drivers, err := o.fillAssets(clustertest.New(t, clustertest.Seed{}).Cluster, process())
			if err != nil {
				t.Fatal(err)
			}
			if got := len(drivers[0].csiAddons.informers()) > 0; got != tt.watched {
				t.Errorf("the operator watches the CRD: %v", got)
			}
		})
	}
}
