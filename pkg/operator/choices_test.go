package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const choicesOfSidecars = "apiVersion: config.csi.openstack.org/v1alpha1\nkind: CinderConfig\n" +
	"sidecars: {releaseLeases: true}\ncsiAddons: {image: registry.example.com/addons}\n"

func choices(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "cinder-csi-config"},
		Data:       map[string]string{"operator.yaml": text},
	}
}

func TestChoicesAreReadAtStart(t *testing.T) {
	t.Parallel()
	o := &operator{
		drivers:    []plugin.Driver{{UserConfigMap: "cinder-csi-config", ChoiceKind: choice.Cinder}},
		namespaces: flavour.Standalone.Namespaces("operators", ""),
		settings:   &settings.Settings{},
	}
	wanted := settings.Chosen{
		ReleaseLeases: true, CSIAddonsImage: "registry.example.com/addons",
	}
	for name, test := range map[string]struct {
		kube *fake.Clientset
		want settings.Chosen
	}{
		"no ConfigMap": {fake.NewClientset(), settings.Chosen{}},
		"valid":        {fake.NewClientset(choices(choicesOfSidecars)), wanted},
		"invalid":      {fake.NewClientset(choices(choicesOfSidecars + "x: y\n")), settings.Chosen{}},
		"invalid on OpenShift": {
			fake.NewClientset(choices(choicesOfSidecars + "kubeletDir: /k\n")), settings.Chosen{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := o.readChoices(t.Context(), test.kube)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("error %v, choices (-want +got):\n%s", err, diff)
			}
		})
	}
}

// The operator reads the choices for a guest cluster in the namespace of the hosted control plane.
func TestImageInChoicesConfiguresCSIAddons(t *testing.T) {
	t.Parallel()
	for f, namespace := range map[flavour.Flavour]string{
		flavour.Standalone: "openshift-config", flavour.HyperShift: "operators",
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			configMap := choices(choicesOfSidecars)
			configMap.Namespace = namespace
			o := operatorWithoutImages(t, f)
			if o.settings.CSIAddons.Enabled {
				t.Error("CSI-Addons is configured without choices")
			}
			o, err := o.withChoicesFrom(t.Context(), fake.NewClientset(configMap))
			if err != nil {
				t.Fatal(err)
			}
			want := "registry.example.com/addons"
			images := o.settings.Images
			if sidecar, adapter := images[bundle.CSIAddonsSidecarImage],
				images[bundle.CSIAddonsDriverImage]; sidecar != want || adapter != want {
				t.Errorf("the images are %q and %q, want %q", sidecar, adapter, want)
			}
			drivers, err := assemble(o)
			if err != nil || drivers[0].csiAddons == nil {
				t.Fatalf("CSI-Addons is not configured; error %v", err)
			}
			message := drivers[0].activeMessage()
			if strings.Contains(message, "NetworkFence is not available") != (f == flavour.HyperShift) {
				t.Errorf("the message of the condition is %q", message)
			}
		})
	}
}

const guestKubeconfig = `
apiVersion: v1
kind: Config
current-context: guest
contexts:
- {name: guest, context: {cluster: guest}}
clusters:
- {name: guest, cluster: {server: https://guest.example}}
`

// operatorWithoutImages returns an operator whose environment has no image of CSI-Addons.
func operatorWithoutImages(t *testing.T, f flavour.Flavour) *operator {
	t.Helper()
	var flags settings.Flags
	set := pflag.NewFlagSet("operator", pflag.ContinueOnError)
	flags.AddTo(set)
	args := []string{"--namespace=operators"}
	if f == flavour.HyperShift {
		guest := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(guest, []byte(guestKubeconfig), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--guest-kubeconfig="+guest)
	}
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	driver := cinderPlugin()
	driver.UserConfigMap, driver.ChoiceKind = "cinder-csi-config", choice.Cinder
	images := newTestOperator(t, f, driver).settings.Images
	o, err := newOperator("test-operator", []plugin.Driver{driver}, &flags,
		func(name string) (string, bool) { image, found := images[name]; return image, found })
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestOtherChoicesRestartTheOperator(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{choicesOfSidecars: 1, choicesOfSidecars + "x: y\n": 0} {
		f := clustertest.New(t, clustertest.Seed{
			ClusterCSIDriver: withClasses("Managed", ""), Guest: []runtime.Object{choices(text)},
		})
		restarts := 0
		d := &driver{
			cluster: f.Cluster, restart: func() { restarts++ },
			events: events.NewInMemoryRecorder("test", clock.RealClock{}),
		}
		d.components.Choices = plugin.NewChoices(f.Cluster, "cinder-csi-config", choice.Cinder)
		controller, err := d.restartOnChoice("RestartOnChoice")
		if err != nil {
			t.Fatal(err)
		}
		f.Start(t)
		if err := controller.Sync(t.Context(), nil); err != nil || restarts != want {
			t.Errorf("%d restarts, want %d; error %v", restarts, want, err)
		}
		config, _ := d.components.Choices.Current()
		d.chosen, restarts = chosenAtStart(config), 0
		if err := controller.Sync(t.Context(), nil); err != nil || restarts != 0 {
			t.Errorf("%d restarts although nothing changed; error %v", restarts, err)
		}
	}
}

// TestInvalidChoicesAtStartLeaveEveryWorkloadUnchanged: also that of a companion driver.
func TestInvalidChoicesAtStartLeaveEveryWorkloadUnchanged(t *testing.T) {
	t.Parallel()
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	infrastructure.Status.ControlPlaneTopology = configv1.HighlyAvailableTopologyMode
	infrastructure.Status.InfrastructureName = "test"
	f := clustertest.New(t, clustertest.Seed{
		Guest: []runtime.Object{choices("x: y\n")}, Config: []runtime.Object{infrastructure},
	})
	all := plugins()
	all[0].Setup = func(plugin.Dependencies) (plugin.Components, error) {
		return plugin.Components{
			Choices: plugin.NewChoices(f.Cluster, "cinder-csi-config", choice.Cinder),
		}, nil
	}
	drivers := assembled(t, flavour.Standalone, all...)
	for _, d := range drivers {
		d.cluster = f.Cluster
	}
	setSpec(t, drivers[0].operator, opv1.OperatorSpec{
		ManagementState: opv1.Managed,
		ObservedConfig:  runtime.RawExtension{Raw: []byte(observedConfig)},
	})
	f.Start(t)
	want := "the workload stays unchanged: the administrator's configuration is invalid: correct " +
		"key operator.yaml of ConfigMap openshift-config/cinder-csi-config"
	controllers := built(t, drivers)[workloads]
	if len(controllers) != 3 {
		t.Fatalf("the drivers have workloads %v", names(controllers))
	}
	for _, c := range controllers {
		err := c.Sync(t.Context(), factory.NewSyncContext(c.Name(), drivers[0].events))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", c.Name(), err, want)
		}
	}
}
