package operator

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceread"

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
			Name: "manila.csi.openstack.org", ConditionPrefix: prefix, Assets: assets,
			Namespace: operandNamespace,
		}
	}
	return []plugin.Driver{driver("OpenStackManila", manila.Assets()), driver("NFS", nfs.Assets())}
}

func newTestOperator(t *testing.T, f flavour.Flavour, drivers ...plugin.Driver) *operator {
	t.Helper()
	bundles, _, err := loadBundles(drivers, f)
	assert.NilError(t, err)
	s := &settings.Settings{
		Namespace: "operators", Flavour: f, ReleaseVersion: "4.21", Images: map[string]string{},
	}
	for _, variables := range bundle.AllImageVariables(f, bundles) {
		s.Images[variables[0]] = "registry.example/" + strings.ToLower(variables[0])
	}
	return &operator{
		name: "test-operator", drivers: drivers, bundles: bundles, settings: s,
		csiAddons:  slices.Repeat([]*bundle.Bundle{{}}, len(drivers)),
		namespaces: f.Namespaces(s.Namespace, drivers[0].Namespace),
	}
}

func process() host.Process {
	return host.Process{
		Config: &rest.Config{Host: "https://cluster.example"},
		Served: &rest.Config{Host: "https://guest.example"},
		Events: events.NewInMemoryRecorder("test", clock.RealClock{}),
		Clock:  clock.RealClock{},
	}
}

// assemble takes the steps up to setUp.
func assemble(o *operator) ([]*driver, error) {
	p := process()
	connected, err := o.connect(p)
	if err != nil {
		return nil, err
	}
	drivers, err := o.fillAssets(connected, p)
	if err != nil {
		return nil, err
	}
	return drivers, setUp(drivers)
}

// assembled returns drivers in a cluster with fake clients.
func assembled(t *testing.T, f flavour.Flavour, plugins ...plugin.Driver) []*driver {
	t.Helper()
	drivers, err := assemble(newTestOperator(t, f, plugins...))
	assert.NilError(t, err)
	fake := clustertest.New(t, clustertest.Seed{Flavour: f})
	for _, side := range flavour.Sides() {
		*drivers[0].cluster.Side(side) = *fake.Side(side)
	}
	for _, d := range drivers {
		d.operator = fake.State
	}
	return drivers
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
	fromTheStart := []string{
		"LoggingSyncer", "manila.csi.openstack.org-ManagementState",
		"OpenStackManilaDriverReadyController", "ConfigObserver",
		"OpenStackManilaDriverTrustedCAController-StaticResources",
		"OpenStackManilaDriverStaleConditions-RemoveStaleConditions",
		"OpenStackManilaDriverLegacyController",
	}
	last := []string{
		"OpenStackManilaDriverControllerServiceController", "OpenStackManilaDriverNodeServiceController",
		"NFSDriverNodeServiceController",
	}
	tests := map[flavour.Flavour][]string{
		flavour.Standalone: {
			"OpenStackManilaDriverHashKeyController",
			"OpenStackManilaDriverGuestStaticResourcesController-StaticResources",
			"OpenStackManilaDriverVolumeSnapshotClassController", "OpenStackManilaDriverSnapshotsServed",
			"OpenStackManilaDriverServiceMonitorController-StaticResources",
		},
		flavour.HyperShift: {
			"OpenStackManilaDriverHashKeyController",
			"OpenStackManilaDriverGuestStaticResourcesController-StaticResources",
			"OpenStackManilaDriverControlPlaneStaticResourcesController-StaticResources",
			"OpenStackManilaDriverVolumeSnapshotClassController", "OpenStackManilaDriverSnapshotsServed",
		},
	}
	for f, needed := range tests {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			want := map[phase][]string{always: fromTheStart, driverNeeded: needed, workloads: last}
			got := map[phase][]string{}
			for phase, controllers := range built(t, assembled(t, f, plugins()...)) {
				got[phase] = names(controllers)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("controllers by phase (-want +got):\n%s", diff)
			}
		})
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
		if in := names(controllers[phase]); !slices.Contains(in, name) {
			t.Errorf("controllers of phase %v are %q, without %s", phase, in, name)
		}
	}
}

func TestRequiredImagesAreThoseOfTheOperatorDeployment(t *testing.T) {
	t.Parallel()
	// ATTACHER_IMAGE is passed too; Manila attaches nothing.
	for f, want := range map[flavour.Flavour][][]string{
		flavour.Standalone: {
			{"DRIVER_IMAGE"},
			{"KUBE_RBAC_PROXY_IMAGE"},
			{"LIVENESS_PROBE_IMAGE"},
			{"NFS_DRIVER_IMAGE"},
			{"NODE_DRIVER_REGISTRAR_IMAGE"},
			{"PROVISIONER_IMAGE"},
			{"RESIZER_IMAGE"},
			{"SNAPSHOTTER_IMAGE"},
		},
		flavour.HyperShift: {
			{"DRIVER_CONTROL_PLANE_IMAGE", "DRIVER_IMAGE"},
			{"DRIVER_IMAGE"},
			{"LIVENESS_PROBE_CONTROL_PLANE_IMAGE", "LIVENESS_PROBE_IMAGE"},
			{"LIVENESS_PROBE_IMAGE"},
			{"NFS_DRIVER_CONTROL_PLANE_IMAGE", "NFS_DRIVER_IMAGE"},
			{"NFS_DRIVER_IMAGE"},
			{"NODE_DRIVER_REGISTRAR_IMAGE"},
			{"PROVISIONER_IMAGE"},
			{"RESIZER_IMAGE"},
			{"SNAPSHOTTER_IMAGE"},
		},
	} {
		bundles, _, err := loadBundles(plugins(), f)
		assert.NilError(t, err)
		got := bundle.AllImageVariables(f, bundles)
		slices.SortFunc(got, slices.Compare)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: image variables (-want +got):\n%s", f, diff)
		}
	}
}

// The releases of the control plane and of the guest cluster may differ.
func TestEachSideRunsImagesOfItsOwnRelease(t *testing.T) {
	t.Parallel()
	own := []string{
		"driver_control_plane_image", "nfs_driver_control_plane_image",
		"liveness_probe_control_plane_image", "provisioner_image", "resizer_image", "snapshotter_image",
	}
	for _, d := range assembled(t, flavour.HyperShift, plugins()...) {
		for _, asset := range d.bundle.Assets() {
			for _, image := range imagesOf(t, asset) {
				name := strings.TrimPrefix(image, "registry.example/")
				if asset.Side == flavour.ControlPlane && !slices.Contains(own, name) ||
					asset.Side == flavour.Guest && strings.Contains(name, "control_plane") {
					t.Errorf(
						"%s of %s, on the %s side, has image %s", asset.Name, d.ConditionPrefix, asset.Side, image,
					)
				}
			}
		}
	}
}

func imagesOf(t *testing.T, asset bundle.Asset) []string {
	t.Helper()
	if asset.Role != bundle.ControllerWorkload && asset.Role != bundle.NodeWorkload {
		return nil
	}
	var workload struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	assert.NilError(t, yaml.Unmarshal(asset.Data, &workload))
	var images []string
	for _, c := range slices.Concat(workload.Spec.Template.Spec.InitContainers,
		workload.Spec.Template.Spec.Containers) {
		images = append(images, c.Image)
	}
	assert.Assert(t, len(images) != 0, "%s has no containers", asset.Name)
	return images
}

func TestEveryAssetDecodesAndContainsOnlyLatePlaceholders(t *testing.T) {
	t.Parallel()
	for _, f := range []flavour.Flavour{flavour.Standalone, flavour.HyperShift} {
		for _, d := range assembled(t, f, plugins()...) {
			for _, asset := range d.bundle.Assets() {
				if err := decodeStrictly(asset); err != nil {
					t.Errorf("%s: %s of %s: %v", f, asset.Name, d.ConditionPrefix, err)
				}
				for _, name := range bundle.Placeholders(asset.Data) {
					if !slices.Contains(bundle.Late(), name) {
						t.Errorf("%s: %s of %s has ${%s}", f, asset.Name, d.ConditionPrefix, name)
					}
				}
			}
		}
	}
}

func decodeStrictly(asset bundle.Asset) error {
	switch asset.Role {
	case bundle.ControllerWorkload:
		return yaml.UnmarshalStrict(asset.Data, &appsv1.Deployment{})
	case bundle.NodeWorkload:
		return yaml.UnmarshalStrict(asset.Data, &appsv1.DaemonSet{})
	case bundle.CSIDriver:
		return yaml.UnmarshalStrict(asset.Data, &storagev1.CSIDriver{})
	default:
		_, err := resourceread.ReadGenericWithUnstructured(asset.Data)
		return err
	}
}

func TestAllDriversUseTheTrustedCABundleOfTheLeader(t *testing.T) {
	t.Parallel()
	for _, f := range []flavour.Flavour{flavour.Standalone, flavour.HyperShift} {
		for _, d := range assembled(t, f, plugins()...) {
			if hooks := d.trustedCAHooks(flavour.ControlPlane); len(hooks) == 0 {
				t.Errorf("%s: %s has no ConfigMap with the trusted CA bundle", f, d.ConditionPrefix)
			}
		}
	}
}

func TestServingCertificatesAreFoundInTheServices(t *testing.T) {
	t.Parallel()
	drivers := assembled(t, flavour.Standalone, plugins()...)
	for i, want := range [][]string{{"manila-csi-driver-controller-metrics-serving-cert"}, nil} {
		got, err := drivers[i].servingCertificates()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: certificates (-want +got):\n%s%v", drivers[i].ConditionPrefix, diff, err)
		}
	}
}

func TestAssemblyErrorsNameTheDriver(t *testing.T) {
	t.Parallel()
	failure := errors.New("cannot be wired")
	tests := map[string]struct {
		change func(*operator)
		want   string
	}{
		"foreign companion": {
			func(o *operator) { o.drivers[1].Name = "other" },
			`driver "NFS" is not a companion of "OpenStackManila"`,
		},
		"companion elsewhere": {
			func(o *operator) { o.drivers[1].Namespace = "elsewhere" },
			`driver "NFS" is not a companion of "OpenStackManila"`,
		},
		"components": {func(o *operator) {
			o.drivers[1].Setup = func(plugin.Dependencies) (plugin.Components, error) {
				return plugin.Components{}, failure
			}
		}, `setting up driver "NFS": cannot be wired`},
		"controller that is nil": {func(o *operator) {
			o.drivers[0].Setup = func(plugin.Dependencies) (plugin.Components, error) {
				return plugin.Components{Controllers: []factory.Controller{nil}}, nil
			}
		}, `setting up driver "OpenStackManila": plugin.Components: field Controllers[0] is nil`},
		"image that is none": {
			func(o *operator) { o.settings.Images["NFS_DRIVER_CONTROL_PLANE_IMAGE"] = "a b" },
			`assets of driver "OpenStackManila": filling placeholders`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newTestOperator(t, flavour.HyperShift, plugins()...)
			tt.change(o)
			if _, err := assemble(o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestInvalidDriversAreRejectedByName(t *testing.T) {
	t.Parallel()
	good := plugins()[0]
	for name, tt := range map[string]struct {
		change func(*plugin.Driver)
		want   string
	}{
		"no assets": {
			func(d *plugin.Driver) { d.Assets = nil },
			`plugin.Driver "OpenStackManila": field Assets is required`,
		},
		"empty assets": {
			func(d *plugin.Driver) { d.Assets = os.DirFS(t.TempDir()) },
			`loading assets of driver "OpenStackManila"`,
		},
		"no name": {
			func(d *plugin.Driver) { d.Name = "" },
			`plugin.Driver "OpenStackManila": field Name "" is not a name`,
		},
		"name of another driver": {
			func(d *plugin.Driver) { d.Name = "cinder.csi.openstack.org" },
			`plugin.Driver "OpenStackManila": field Name is "cinder.csi.openstack.org", ` +
				`but the CSIDriver in its assets is "manila.csi.openstack.org"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := good
			tt.change(&driver)
			if _, _, err := loadBundles([]plugin.Driver{driver}, flavour.Standalone); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestTwoWorkloadsOfARoleAreRejected(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.Standalone, plugins()...)[0]
	assets := d.bundle.Assets()
	second := assets[len(assets)-1]
	second.Name = "second.yaml"
	var err error
	if d.bundle, err = bundle.New(append(assets, second)); err != nil {
		t.Fatal(err)
	}
	if _, err := buildControllers([]*driver{d}); err == nil ||
		!strings.Contains(err.Error(), "has 2 assets of role") {
		t.Errorf("got %v, want two assets of a role to be a fault", err)
	}
}

func TestFSGroupPolicyChangesOnlyTheCSIDriver(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.Standalone, plugins()...)[0]
	before, after := d.bundle.Assets(), d.bundle.Assets()
	for _, policy := range []storagev1.FSGroupPolicy{"", storagev1.FileFSGroupPolicy} {
		d.components.FSGroupPolicy = policy
		assert.NilError(t, d.setFSGroupPolicy(after))
		for i := range before {
			if policy == "" || before[i].Role != bundle.CSIDriver {
				if diff := cmp.Diff(before[i], after[i]); diff != "" {
					t.Errorf("asset %s changed (-before +after):\n%s", before[i].Name, diff)
				}
				continue
			}
			var was, is storagev1.CSIDriver
			assert.NilError(t, errors.Join(yaml.UnmarshalStrict(before[i].Data, &was),
				yaml.UnmarshalStrict(after[i].Data, &is)))
			was.Spec.FSGroupPolicy = &policy
			if diff := cmp.Diff(was, is); diff != "" {
				t.Errorf("CSIDriver (-want +got):\n%s", diff)
			}
		}
	}
}

// While the observed configuration is missing, an update would remove proxy and TLS profile.
func TestWorkloadsStayAsTheyAreWithoutAnObservedConfig(t *testing.T) {
	t.Parallel()
	d := assembled(t, flavour.HyperShift, plugins()...)[0]
	for _, c := range built(t, []*driver{d})[workloads] {
		err := c.Sync(t.Context(), factory.NewSyncContext(c.Name(), d.events))
		if err == nil || !strings.Contains(err.Error(), "spec.observedConfig") {
			t.Errorf("%s returned %v, want an error that names the field", c.Name(), err)
		}
	}
}

func TestDriverWithoutANamespaceUsesTheDefault(t *testing.T) {
	t.Parallel()
	p := plugins()[1]
	p.Namespace = ""
	d := assembled(t, flavour.Standalone, p)[0]
	if got := d.cluster.Namespaces; got.Guest != flavour.DefaultNamespace ||
		got.ControlPlane != flavour.DefaultNamespace {
		t.Errorf("namespaces is %+v", got)
	}
	if d.Name != opv1.ManilaCSIDriver {
		t.Errorf("name is %s", d.Name)
	}
}
