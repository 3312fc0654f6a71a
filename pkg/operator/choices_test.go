package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
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
	}
	wanted := choice.Startup{
		Sidecars:  choice.Sidecars{ReleaseLeases: true},
		CSIAddons: choice.CSIAddons{Image: "registry.example.com/addons"},
	}
	for name, test := range map[string]struct {
		kube *fake.Clientset
		want choice.Startup
	}{
		"no ConfigMap": {fake.NewClientset(), choice.Startup{}},
		"valid":        {fake.NewClientset(choices(choicesOfSidecars)), wanted},
		"invalid":      {fake.NewClientset(choices(choicesOfSidecars + "x: y\n")), choice.Startup{}},
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
		d.chosen, restarts = config.Startup(), 0
		if err := controller.Sync(t.Context(), nil); err != nil || restarts != 0 {
			t.Errorf("%d restarts although nothing changed; error %v", restarts, err)
		}
	}
}
