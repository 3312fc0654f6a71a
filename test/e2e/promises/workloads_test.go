//go:build e2e

package promises

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// workload is the Deployment or a DaemonSet of a driver.
type workload struct {
	namespace, name string
	isDeployment    bool
}

// workloads returns the workloads of all drivers.
func (x *test) workloads() []workload {
	var all []workload
	for _, o := range x.Cluster.Operators {
		for i, name := range o.Workloads {
			all = append(all, workload{o.OperandNamespace, name, i == 0})
		}
	}
	return all
}

// controllers returns the Deployments of all drivers.
func (x *test) controllers() []workload {
	return slices.DeleteFunc(x.workloads(), func(w workload) bool { return !w.isDeployment })
}

// object names a workload in commands of kubectl.
func (w workload) object() string {
	kind := map[bool]string{true: "deployment", false: "daemonset"}[w.isDeployment]
	return "-n " + w.namespace + " " + kind + "/" + w.name
}

// podsOf returns the pods of a workload by their UIDs.
func (x *test) podsOf(w workload) map[types.UID]corev1.Pod {
	x.T.Helper()
	list, err := x.Cluster.Client.CoreV1().Pods(w.namespace).List(x.T.Context(), metav1.ListOptions{})
	x.Must(err)
	found := map[types.UID]corev1.Pod{}
	for _, pod := range list.Items {
		if strings.HasPrefix(pod.Name, w.name+"-") {
			found[pod.UID] = pod
		}
	}
	return found
}

// mustReplacePods is replacePods that also waits until the drivers are ready.
func (x *test) mustReplacePods(workloads []workload, change func()) {
	x.T.Helper()
	x.replacePods(workloads, change)
	x.Must(x.Cluster.WaitUntilReady(x.T.Context()))
}

// replacePods makes a change, and waits until every workload has only pods that did not exist
// before, and all are ready. The status of a workload can be older than its pods.
func (x *test) replacePods(workloads []workload, change func()) {
	x.T.Helper()
	before := map[workload]map[types.UID]corev1.Pod{}
	for _, w := range workloads {
		before[w] = x.podsOf(w)
	}
	change()
	for _, w := range workloads {
		x.Eventually(w.name+" has new pods", func() error {
			pods := x.podsOf(w)
			if len(pods) == 0 {
				return errors.New("there is no pod")
			}
			for uid, pod := range pods {
				if _, old := before[w][uid]; old {
					return fmt.Errorf("pod %s is not replaced", pod.Name)
				}
				if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
				}) {
					return fmt.Errorf("pod %s is not ready", pod.Name)
				}
			}
			return nil
		})
	}
	x.awaitRollouts(workloads)
}

// awaitRollouts waits until all pods of the workloads have the latest template and are available.
func (x *test) awaitRollouts(workloads []workload) {
	x.T.Helper()
	for _, w := range workloads {
		x.run("kubectl rollout status --timeout=" + timeout.String() + " " + w.object())
	}
}
