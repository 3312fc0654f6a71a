package plugin_test

import (
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// A message must not name the source of credentials of the other flavour.
func TestAdviceAboutCredentialsIsForTheFlavour(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		clock := clocktesting.NewFakeClock(time.Unix(0, 0))
		fake := clustertest.New(t, clustertest.Seed{
			Flavour: f, OperatorNamespace: "a", DriverNamespace: "b",
		})
		dependencies := plugin.Dependencies{
			Cluster: fake.Cluster, Settings: &settings.Settings{}, Clock: clock,
			Events: events.NewInMemoryRecorder("test", clock),
		}
		if f == flavour.Kubernetes {
			dependencies.Settings.CredentialsSecret = "s"
		} else {
			dependencies.TrustedCAs = func() []byte { return nil }
		}
		watcher := dependencies.NewCredentials(credential.Options{Service: "X", Secret: "s"}, "request")
		hosted := f == flavour.HyperShift
		words := watcher.Words.Replace("key cacert of " + openstack.TheSecret + openstack.OrBundle +
			", " + openstack.TheProxy)
		assert.Check(t, is.Equal(words, map[flavour.Flavour]string{
			flavour.HyperShift: "key cacert of the Secret that the HostedCluster names in " +
				"spec.platform.openstack.identityRef, or into the trusted CA bundle of the management " +
				"cluster (trustedCA of its Proxy/cluster), Proxy/cluster of the management cluster",
			flavour.Standalone: "key cacert of the credentials Secret" + openstack.OrBundle +
				", Proxy/cluster",
			flavour.Kubernetes: "key cacert of the credentials Secret, the proxy variables of the operator",
		}[f]))
		for _, advice := range []string{watcher.Missing, watcher.Wrong} {
			assert.Check(t, is.Equal(strings.Contains(advice, "HostedCluster"), hosted), advice)
			assert.Check(t, !hosted || !strings.Contains(advice, "CredentialsRequest"), advice)
		}
		assert.Check(t, is.Equal(strings.Contains(watcher.Missing, "CredentialsRequest request"),
			f == flavour.Standalone))
	}
}
