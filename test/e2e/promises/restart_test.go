//go:build e2e

package promises

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
	"github.com/openstack-csi/csi-operator/test/node/supervisor"
)

// TestVolumesSurviveRestartsOfNodeServices kills the kubelets and then the containerds of all nodes
// while pods write. The services then still know the volumes: they unmount and mount them.
func TestVolumesSurviveRestartsOfNodeServices(t *testing.T) {
	x := use(t, kind{tls: true})
	volume := x.write("restart-volume", pods.Cinder())
	share := x.write("restart-share", pods.Manila())
	for _, service := range []string{supervisor.Kubelet, supervisor.Containerd} {
		for _, node := range x.Cluster.Nodes() {
			x.Must(node.Restart(t.Context(), service))
		}
		volume.mustBeUndisturbed()
		share.mustBeUndisturbed()
	}
	x.Must(x.Cluster.WaitUntilReady(t.Context()))
	x.mustHaveWritten(volume, "restart-volume")
	x.mustHaveWritten(share, "restart-share")
}

// TestVolumesSurviveRestartsOfDriverPods deletes all pods of both drivers while pods write.
func TestVolumesSurviveRestartsOfDriverPods(t *testing.T) {
	x := use(t, kind{tls: true})
	volume := x.write("deleted-drivers-volume", pods.Cinder())
	share := x.write("deleted-drivers-share", pods.Manila())
	x.mustReplacePods(x.workloads(), func() {
		for _, w := range x.workloads() {
			for _, pod := range x.podsOf(w) {
				x.Must(x.Cluster.Client.CoreV1().Pods(pod.Namespace).
					Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
			}
		}
	})
	volume.mustBeUndisturbed()
	share.mustBeUndisturbed()
	x.mustHaveWritten(volume, "deleted-drivers-volume")
	x.mustHaveWritten(share, "deleted-drivers-share")
}
