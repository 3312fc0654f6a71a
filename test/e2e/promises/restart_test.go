//go:build e2e

package promises

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/node/supervisor"
)

// TestVolumesSurviveRestartsOfNodeServices kills the kubelets and then the containerds of all nodes
// while pods write. The services then still know the volumes: they unmount and mount them.
func TestVolumesSurviveRestartsOfNodeServices(t *testing.T) {
	x := use(t, kind{tls: true})
	w := x.write("restart")
	for _, service := range []string{supervisor.Kubelet, supervisor.Containerd} {
		for _, node := range x.Cluster.Nodes() {
			x.Must(node.Restart(t.Context(), service))
		}
		w.mustBeUndisturbed()
	}
	x.Must(x.Cluster.WaitUntilReady(t.Context()))
	w.mustHaveWritten()
}

// TestVolumesSurviveRestartsOfDriverPods deletes all pods of both drivers while pods write.
func TestVolumesSurviveRestartsOfDriverPods(t *testing.T) {
	x := use(t, kind{tls: true})
	writers := x.write("deleted-drivers")
	x.mustReplacePods(x.workloads(), func() {
		for _, w := range x.workloads() {
			for _, pod := range x.podsOf(w) {
				x.Must(x.Cluster.Client.CoreV1().Pods(pod.Namespace).
					Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
			}
		}
	})
	writers.mustBeUndisturbed()
	writers.mustHaveWritten()
}
