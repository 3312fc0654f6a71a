package operator

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"

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

// sidecarHooks returns the hooks that add the chosen arguments to the sidecars.
func (d *driver) sidecarHooks(deployments appslisters.DeploymentLister) []hook.Workload {
	names := func() []string {
		if !d.choices.Config().Sidecars.ClaimMetadata {
			return nil
		}
		return []string{"--extra-create-metadata"}
	}
	return []hook.Workload{
		d.releaseLeasesHook(deployments),
		hook.Arguments("csi-provisioner", names), hook.Arguments("csi-snapshotter", names),
	}
}
