package operator

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// leaderElection returns the durations of the leader election of the sidecars. After a sidecar was
// killed, claims wait until its Lease has expired. On OpenShift, whose durations the zero value
// selects, sidecars outlast a minute without an API server instead. Elsewhere the durations are the
// defaults of the sidecars.
func (d *driver) leaderElection() configv1.LeaderElection {
	if d.settings.ClusterID == "" {
		return configv1.LeaderElection{}
	}
	return configv1.LeaderElection{
		LeaseDuration: metav1.Duration{Duration: 15 * time.Second},
		RenewDeadline: metav1.Duration{Duration: 10 * time.Second},
		RetryPeriod:   metav1.Duration{Duration: 5 * time.Second},
	}
}

// leaseHooks returns the hooks that make the sidecars release their Leases when they end. A sidecar
// that does not know the feature gate exits, so only a setting adds the gate.
func (d *driver) leaseHooks() []hook.Workload {
	if !d.settings.ReleaseLeases {
		return nil
	}
	var hooks []hook.Workload
	for _, sidecar := range []string{
		"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter",
	} {
		hooks = append(hooks,
			hook.Arguments(sidecar, "--feature-gates=ReleaseLeaderElectionOnExit=true"))
	}
	return hooks
}
