package operator

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	manila "github.com/openstack-csi/csi-operator/assets/drivers/manila"
	nfs "github.com/openstack-csi/csi-operator/assets/drivers/nfs"
	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/host"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const operandNamespace = "openshift-manila-csi-driver"

// plugins returns drivers with the generated assets and without components.
func plugins() []plugin.Driver {
	driver := func(prefix string, assets fs.FS) plugin.Driver {
		return plugin.Driver{
			ConditionPrefix: prefix, Assets: assets, Namespace: operandNamespace,
		}
	}
	return []plugin.Driver{driver("OpenStackManila", manila.Assets()), driver("NFS", nfs.Assets())}
}

func newTestOperator(t *testing.T, f flavour.Flavour, drivers ...plugin.Driver) *operator {
	t.Helper()
	bundles, _, err := loadBundles(drivers, f)
	assert.NilError(t, err)
	csiDriver, _ := driverName(bundles[0]) // a companion alone has none
	s := &settings.Settings{
		Namespace: "operators", Flavour: f, ReleaseVersion: "4.21", Images: map[string]string{},
	}
	for _, variables := range bundle.AllImageVariables(f, bundles) {
		s.Images[variables[0]] = "registry.example/" + strings.ToLower(variables[0])
	}
	return &operator{
		name: "test-operator", driver: csiDriver, drivers: drivers, bundles: bundles, settings: s,
		csiAddons:  slices.Repeat([]*bundle.Bundle{{}}, len(drivers)),
		namespaces: f.Namespaces(s.Namespace, drivers[0].Namespace),
	}
}

func process() host.Process {
	return host.Process{
		Options: host.Options{
			Config: &rest.Config{Host: "https://cluster.example"},
			Served: &rest.Config{Host: "https://guest.example"},
			Clock:  clock.RealClock{},
		},
		Events:   events.NewInMemoryRecorder("test", clock.RealClock{}),
		SetReady: func(bool) {},
	}
}

// assembled returns drivers in an empty fake cluster.
func assembled(t *testing.T, f flavour.Flavour, plugins ...plugin.Driver) []*driver {
	t.Helper()
	return assembledIn(t, clustertest.New(t, clustertest.Seed{
		Flavour: f, OperatorNamespace: "operators", DriverNamespace: plugins[0].Namespace,
	}), plugins...)
}

func assembledIn(t *testing.T, f *clustertest.Fake, plugins ...plugin.Driver) []*driver {
	t.Helper()
	return filled(t, newTestOperator(t, f.Flavour, plugins...), f, process())
}

func filled(t *testing.T, o *operator, f *clustertest.Fake, p host.Process) []*driver {
	t.Helper()
	drivers, err := o.fillAssets(f.Cluster, p)
	assert.NilError(t, err)
	assert.NilError(t, setUp(drivers))
	return drivers
}

func TestClusterHasTheNamespacesOfTheDriver(t *testing.T) {
	t.Parallel()
	o := newTestOperator(t, flavour.Standalone, cinderPlugin())
	got, err := o.connect(process())
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual(o.namespaces, got.Namespaces))
}

func TestOperatorForKubernetesEndsOnOpenShift(t *testing.T) {
	t.Parallel()
	all := metav1.Verbs{
		"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
	}
	for name, test := range map[string]struct {
		flavour flavour.Flavour
		verbs   metav1.Verbs // of projectrequests, nil if there are none
		version bool         // the ClusterVersion exists, and may be read
		fits    bool
	}{
		"Kubernetes":                 {flavour.Kubernetes, nil, false, true},
		"Kubernetes with stray CRDs": {flavour.Kubernetes, all, false, true},
		"OpenShift":                  {flavour.Kubernetes, metav1.Verbs{"create", "list"}, false, false},
		"OpenShift by its object":    {flavour.Kubernetes, all, true, false},
		"standalone":                 {flavour.Standalone, metav1.Verbs{"create", "list"}, true, true},
	} {
		fake := clustertest.New(t, clustertest.Seed{Flavour: test.flavour})
		if test.version {
			version := &unstructured.Unstructured{}
			version.SetGroupVersionKind(configv1.GroupVersion.WithKind("ClusterVersion"))
			version.SetName("version")
			_, err := fake.Cluster.Side(flavour.Guest).Dynamic.
				Resource(configv1.GroupVersion.WithResource("clusterversions")).
				Create(t.Context(), version, metav1.CreateOptions{})
			assert.NilError(t, err)
		}
		if test.verbs != nil {
			fake.Guest.Resources = append(fake.Guest.Resources, &metav1.APIResourceList{
				GroupVersion: "config.openshift.io/v1",
				APIResources: []metav1.APIResource{{Name: "clusterversions", Verbs: all}},
			}, &metav1.APIResourceList{
				GroupVersion: "project.openshift.io/v1", APIResources: []metav1.APIResource{
					{Name: "projects", Verbs: all}, {Name: "projectrequests", Verbs: test.verbs},
				},
			})
		}
		err := mustFitFlavour(t.Context(), fake.Cluster)
		assert.Check(t, is.Equal(err == nil, test.fits), "%s: %v", name, err)
	}
}

func names(controllers []factory.Controller) []string {
	var ret []string
	for _, c := range controllers {
		ret = append(ret, c.Name())
	}
	return ret
}

func built(t *testing.T, drivers []*driver) map[phase][]factory.Controller {
	t.Helper()
	controllers, err := buildControllers(drivers)
	assert.NilError(t, err)
	return controllers
}

func TestEachControllerStartsInItsPhase(t *testing.T) {
	t.Parallel()
	const (
		fromTheStart = "LoggingSyncer manila.csi.openstack.org-ManagementState *ReadyController " +
			"ConfigObserver *TrustedCAController-StaticResources " +
			"*StaleConditions-RemoveStaleConditions *LegacyController"
		last = "*ControllerServiceController *NodeServiceController NFSDriverNodeServiceController"
	)
	for f, needed := range map[flavour.Flavour]string{
		flavour.Standalone: "*HashKeyController *GuestStaticResourcesController-StaticResources " +
			"*VolumeSnapshotClassController *SnapshotsServed " +
			"*ServiceMonitorController-StaticResources",
		flavour.HyperShift: "*HashKeyController *GuestStaticResourcesController-StaticResources " +
			"*ControlPlaneStaticResourcesController-StaticResources " +
			"*VolumeSnapshotClassController *SnapshotsServed",
	} {
		want := map[phase]string{always: fromTheStart, driverNeeded: needed, workloads: last}
		got := map[phase]string{}
		for phase, controllers := range built(t, assembled(t, f, plugins()...)) {
			all := strings.Join(names(controllers), " ")
			got[phase] = strings.ReplaceAll(all, "OpenStackManilaDriver", "*")
		}
		assert.Check(t, is.DeepEqual(want, got), "controllers by phase, %s", f)
	}
}

// The credentials are tested before the driver is needed: the test decides whether it is.
func TestControllersOfThePluginStartInTheirPhase(t *testing.T) {
	t.Parallel()
	both := plugins()
	own := &fakeController{name: "Own"}
	both[0].Setup = func(s plugin.Dependencies) (plugin.Components, error) {
		if s.Cluster.Namespaces.Guest != operandNamespace || s.Settings.ReleaseVersion != "4.21" ||
			s.Events == nil || s.TrustedCAs == nil || len(s.TrustedCAInformers) != 1 ||
			s.Observe == nil || s.Needed == nil {
			t.Errorf("wired to %+v", s)
		}
		return plugin.Components{
			Controllers: []factory.Controller{own},
			Credentials: s.NewCredentials(credential.Options{Service: "Own", Secret: "own"}, "own"),
		}, nil
	}
	controllers := built(t, assembled(t, flavour.Standalone, both...))
	for phase, name := range map[phase]string{
		driverNeeded: "Own", always: "OwnCredentialsController",
	} {
		assert.Check(t, is.Contains(names(controllers[phase]), name), "phase %v", phase)
	}
}

func TestRequiredImagesAreThoseOfTheOperatorDeployment(t *testing.T) {
	t.Parallel()
	// ATTACHER_IMAGE is passed too; Manila attaches nothing.
	for f, want := range map[flavour.Flavour]string{
		flavour.Standalone: "DRIVER_IMAGE KUBE_RBAC_PROXY_IMAGE LIVENESS_PROBE_IMAGE NFS_DRIVER_IMAGE " +
			"NODE_DRIVER_REGISTRAR_IMAGE PROVISIONER_IMAGE RESIZER_IMAGE SNAPSHOTTER_IMAGE",
		flavour.HyperShift: "DRIVER_CONTROL_PLANE_IMAGE|DRIVER_IMAGE DRIVER_IMAGE " +
			"LIVENESS_PROBE_CONTROL_PLANE_IMAGE|LIVENESS_PROBE_IMAGE LIVENESS_PROBE_IMAGE " +
			"NFS_DRIVER_CONTROL_PLANE_IMAGE|NFS_DRIVER_IMAGE NFS_DRIVER_IMAGE " +
			"NODE_DRIVER_REGISTRAR_IMAGE PROVISIONER_IMAGE RESIZER_IMAGE SNAPSHOTTER_IMAGE",
	} {
		bundles, _, err := loadBundles(plugins(), f)
		assert.NilError(t, err)
		var got []string
		for _, variables := range bundle.AllImageVariables(f, bundles) {
			got = append(got, strings.Join(variables, "|"))
		}
		slices.Sort(got)
		assert.Check(t, is.DeepEqual(strings.Fields(want), got), "%s: image variables", f)
	}
}

func TestAllDriversUseTheTrustedCABundleOfTheLeader(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		for _, d := range assembled(t, f, plugins()...) {
			hooks := d.trustedCAHooks(flavour.ControlPlane)
			assert.Check(t, is.Equal(len(hooks) > 0, f != flavour.Kubernetes), "%s: %s", f,
				d.ConditionPrefix)
		}
	}
}

func TestServingCertificatesAreFoundInTheServices(t *testing.T) {
	t.Parallel()
	drivers := assembled(t, flavour.Standalone, plugins()...)
	for i, want := range [][]string{{"manila-csi-driver-controller-metrics-serving-cert"}, nil} {
		got, err := drivers[i].servingCertificates()
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(want, got), drivers[i].ConditionPrefix)
	}
}

func TestInvalidDriversAreRejectedByName(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*operator){
		`loading assets of driver "OpenStackManila"`: func(o *operator) {
			o.drivers[0].Assets = os.DirFS(t.TempDir())
		},
		`driver "NFS" is not a companion of "OpenStackManila"`: func(o *operator) {
			o.drivers[1].Namespace = "elsewhere"
		},
		`setting up driver "NFS": cannot be wired`: func(o *operator) {
			o.drivers[1].Setup = func(plugin.Dependencies) (plugin.Components, error) {
				return plugin.Components{}, errors.New("cannot be wired")
			}
		},
		`assets of driver "OpenStackManila": filling placeholders`: func(o *operator) {
			o.settings.Images["NFS_DRIVER_CONTROL_PLANE_IMAGE"] = "a b"
		},
	} {
		o := newTestOperator(t, flavour.HyperShift, plugins()...)
		change(o)
		_, _, err := loadBundles(o.drivers, flavour.HyperShift)
		var drivers []*driver
		if err == nil {
			fake := clustertest.New(t, clustertest.Seed{Flavour: flavour.HyperShift})
			drivers, err = o.fillAssets(fake.Cluster, process())
		}
		if err == nil {
			err = setUp(drivers)
		}
		assert.Check(t, is.ErrorContains(err, want))
	}
}

func TestCSIDriverHasWhatIsChosen(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		chosen string
		policy storagev1.FSGroupPolicy
		want   func(*storagev1.CSIDriverSpec)
	}{
		"nothing": {"{}", "", func(*storagev1.CSIDriverSpec) {}},
		"a variable": {
			"{fsGroupPolicy: None}", storagev1.FileFSGroupPolicy,
			func(s *storagev1.CSIDriverSpec) { s.FSGroupPolicy = new(storagev1.FileFSGroupPolicy) },
		},
		"all fields": {
			"{fsGroupPolicy: ReadWriteOnceWithFSType, seLinuxMount: false, " +
				"volumeLifecycleModes: [Persistent, Ephemeral]}", "",
			func(s *storagev1.CSIDriverSpec) {
				s.FSGroupPolicy = new(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
				s.SELinuxMount = new(false)
				s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{
					storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral,
				}
			},
		},
	} {
		f := clustertest.New(t, clustertest.Seed{
			Flavour: flavour.Kubernetes, Spec: "{csiDriver: " + tt.chosen + "}",
		})
		p := cinderPlugin()
		p.Setup = setUpChoices
		d := assembledIn(t, f, p)[0]
		d.components.FSGroupPolicy = tt.policy
		f.Start(t)
		asset := d.bundle.Select(bundle.CSIDriver, flavour.Guest)[0]
		want, err := decode[storagev1.CSIDriver](asset)
		assert.NilError(t, err)
		tt.want(&want.Spec)
		asset.Data, err = d.chosenCSIDriver(asset)
		assert.NilError(t, err)
		got, err := decode[storagev1.CSIDriver](asset)
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(want.Spec, got.Spec), name)
		_, _, err = resourceapply.ApplyCSIDriver(t.Context(), fake.NewClientset().StorageV1(),
			events.NewInMemoryRecorder("", clock.RealClock{}), got)
		assert.Check(t, err, name)
	}
}

// While the observed configuration is missing, an update would remove proxy and TLS profile.
func TestWorkloadsStayAsTheyAreWithoutAnObservedConfig(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.HyperShift, plugins()...)[0]
	for _, c := range built(t, []*driver{d})[workloads] {
		assert.Check(t, is.ErrorContains(syncOnce(t, d, c), "spec.observedConfig"), c.Name())
	}
}
