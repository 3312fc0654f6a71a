package plugin_test

import (
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
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
		watcher := dependencies.NewCredentials(credential.Options{Service: "X", Secret: "s"}, "request")
		hosted := f == flavour.HyperShift
		for _, advice := range []string{watcher.Missing, watcher.Wrong} {
			if strings.Contains(advice, "HostedCluster") != hosted ||
				strings.Contains(advice, "CredentialsRequest") && hosted {
				t.Errorf("the advice is not for %s: %s", f, advice)
			}
		}
		if !hosted && !strings.Contains(watcher.Missing, "CredentialsRequest request") {
			t.Errorf("the advice does not name the request: %s", watcher.Missing)
		}
	}
}
