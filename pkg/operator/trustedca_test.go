package operator

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// fill plays the network operator, as the cache sees it.
func fill(t *testing.T, trusted *trustedCA, bundle string) {
	t.Helper()
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: trusted.namespace, Name: trusted.name},
		Data:       map[string]string{"ca-bundle.crt": bundle, "other": "x"},
	}
	if err := trusted.configMaps.Informer().GetIndexer().Add(config); err != nil {
		t.Fatal(err)
	}
}

// TestTrustedCAsOfTheOperatorsCluster: on HyperShift the hosted cluster does not decide whom the operator trusts.
func TestTrustedCAsOfTheOperatorsCluster(t *testing.T) {
	t.Parallel()
	for f, namespace := range map[flavour.Flavour]string{flavour.Standalone: "operands", flavour.HyperShift: "operators"} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			drivers := plugins()
			for i := range drivers {
				drivers[i].Namespace = "operands"
			}
			trusted := assembled(t, f, drivers...)[0].trustedCA
			if trusted.namespace != namespace {
				t.Errorf("the ConfigMap is in %s, want %s", trusted.namespace, namespace)
			}
			d := assembled(t, f, drivers...)[0]
			for _, asset := range slices.Concat(d.staticAssets(flavour.Guest), d.staticAssets(flavour.ControlPlane)) {
				if asset.Name == trusted.asset.Name {
					t.Error("the ConfigMap has a second writer")
				}
			}
			if got := trusted.pem(); got != nil || trusted.changed() {
				t.Errorf("before there is a ConfigMap it holds %q", got)
			}
			fill(t, trusted, "CA")
			if got := string(trusted.pem()); got != "CA" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestNewTrustedCAsAreTriedAtOnce: after the installation the network operator fills the ConfigMap a moment after the first look.
func TestNewTrustedCAsAreTriedAtOnce(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(metav1.Now().Time)
	w := watch(clock)
	w.gate.answers(noAnswer())
	w.trusted = assembled(t, flavour.Standalone, plugins()...)[0].trustedCA
	for i, step := range []struct {
		bundle string
		asked  int32
	}{{"", 1}, {"", 1}, {"CA", 2}, {"CA", 2}, {"another CA", 3}, {"", 4}} {
		fill(t, w.trusted, step.bundle)
		if err := w.sync(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if got := w.gate.asked.Load(); got != step.asked {
			t.Errorf("step %d: the cloud was asked %d times, want %d", i, got, step.asked)
		}
	}
}
