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
)

// TestCredentialsReachDriversWithoutInterruptedWrites rotates the credentials in OpenStack and in
// the Secrets, as cloud-credential-operator does. OpenStack then refuses the earlier credentials.
func TestCredentialsReachDriversWithoutInterruptedWrites(t *testing.T) {
	x := use(t, kind{tls: true})
	volume := x.write("credentials-volume", cinderClass())
	share := x.write("credentials-share", manilaClass())
	x.mustReplacePods(x.controllers(), func() { x.must(x.c.RotateCredentials(t.Context())) })
	// Only a driver that knows the new credentials creates volumes and shares.
	x.mustHaveWritten(x.write("credentials-new-volume", cinderClass()), "credentials-new-volume")
	x.mustHaveWritten(x.write("credentials-new-share", manilaClass()), "credentials-new-share")
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
	volume := x.write("rollout-volume", cinderClass())
	share := x.write("rollout-share", manilaClass())
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
	x.t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": spec})
	x.must(err)
	client, err := operatorclient.NewForConfig(x.c.Config)
	x.must(err)
	for _, o := range x.c.Operators {
		_, err := client.OperatorV1().ClusterCSIDrivers().Patch(context.Background(),
			o.ClusterCSIDriver, types.MergePatchType, patch, metav1.PatchOptions{})
		x.must(err)
	}
}
