package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
)

// The option is a number of seconds, so a short outage does not use up many attempts.
func TestDelayOfConnectionsDoublesFromSecondsToMinutes(t *testing.T) {
	t.Parallel()
	var flags settings.Flags
	set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	flags.AddTo(set)
	args := []string{"--namespace=a", "--driver-namespaces=a=b", "--csi-addons-node-retry-delay=5"}
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	s, err := flags.Load()
	if err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Options: settings.NewLive(s.Options)}
	var got []time.Duration
	for failed := range 100 {
		got = append(got, r.delay(failed+1))
	}
	want := []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}
	if diff := cmp.Diff(want, got[:4]); diff != "" {
		t.Errorf("the first delays (-want +got):\n%s", diff)
	}
	if got[99] != maxRetryDelay {
		t.Errorf("the last delay is %v, want %v", got[99], maxRetryDelay)
	}
}
