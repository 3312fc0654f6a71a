//go:build e2e

package promises

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	opv1 "github.com/openshift/api/operator/v1"
	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// TestCredentialsReachDriversWithoutInterruptedWrites rotates the credentials in OpenStack and in
// the Secrets, as cloud-credential-operator does. OpenStack then refuses the earlier credentials.
func TestCredentialsReachDriversWithoutInterruptedWrites(t *testing.T) {
	x := use(t, kind{tls: true})
	volume := x.write("credentials-volume", pods.Cinder())
	share := x.write("credentials-share", pods.Manila())
	rolled := slices.DeleteFunc(x.controllers(), func(w workload) bool {
		return w.name != "openstack-cinder-csi-driver-controller"
	})
	x.mustReplacePods(rolled, func() { x.Must(x.Cluster.RotateCredentials(t.Context())) })
	// Only a driver that knows the new credentials creates volumes and shares.
	x.mustHaveWritten(x.write("credentials-new-volume", pods.Cinder()), "credentials-new-volume")
	x.mustHaveWritten(x.write("credentials-new-share", pods.Manila()), "credentials-new-share")
	volume.mustBeUndisturbed()
	share.mustBeUndisturbed()
	x.mustHaveWritten(volume, "credentials-volume")
	x.mustHaveWritten(share, "credentials-share")
}

// controllers returns the Deployments of all drivers.
func (x *test) controllers() []workload {
	return slices.DeleteFunc(x.workloads(), func(w workload) bool { return !w.isDeployment })
}

// TestNodePodsAreReplacedWithoutInterruptedWrites changes the log level of the drivers, so that the
// operators replace all their pods.
func TestNodePodsAreReplacedWithoutInterruptedWrites(t *testing.T) {
	x := use(t, kind{tls: true})
	volume := x.write("rollout-volume", pods.Cinder())
	share := x.write("rollout-share", pods.Manila())
	for _, level := range []opv1.LogLevel{opv1.Debug, opv1.Normal} {
		x.mustReplacePods(x.workloads(), func() {
			x.patchDrivers(map[string]any{"logLevel": level})
		})
		volume.mustBeUndisturbed()
		share.mustBeUndisturbed()
	}
	x.mustHaveWritten(volume, "rollout-volume")
	x.mustHaveWritten(share, "rollout-share")
}

// patchDrivers changes the spec of the ClusterCSIDrivers.
func (x *test) patchDrivers(spec map[string]any) {
	x.T.Helper()
	patch, err := json.Marshal(map[string]any{"spec": spec})
	x.Must(err)
	client, err := operatorclient.NewForConfig(x.Cluster.Config)
	x.Must(err)
	for _, o := range x.Cluster.Operators {
		_, err := client.OperatorV1().ClusterCSIDrivers().Patch(context.Background(),
			o.ClusterCSIDriver, types.MergePatchType, patch, metav1.PatchOptions{})
		x.Must(err)
	}
}
