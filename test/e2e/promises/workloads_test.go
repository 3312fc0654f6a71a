//go:build e2e

package promises

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
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

// rollout is the state of a workload.
type rollout struct {
	// wanted is the number of pods that the workload should have.
	wanted int32
	pods   *metav1.LabelSelector
	// done is nil if all pods have the latest template and are available.
	done error
}

func (x *test) rollout(ctx context.Context, w workload) (rollout, error) {
	apps := x.Cluster.Client.AppsV1()
	if w.isDeployment {
		d, err := apps.Deployments(w.namespace).Get(ctx, w.name, metav1.GetOptions{})
		if err != nil {
			return rollout{}, err
		}
		return rollout{ptr.Deref(d.Spec.Replicas, 1), d.Spec.Selector, deploymentDone(d)}, nil
	}
	d, err := apps.DaemonSets(w.namespace).Get(ctx, w.name, metav1.GetOptions{})
	if err != nil {
		return rollout{}, err
	}
	return rollout{d.Status.DesiredNumberScheduled, d.Spec.Selector, daemonSetDone(d)}, nil
}

func deploymentDone(d *appsv1.Deployment) error {
	wanted, s := ptr.Deref(d.Spec.Replicas, 1), d.Status
	if s.ObservedGeneration < d.Generation || s.Replicas != wanted || s.UpdatedReplicas != wanted ||
		s.AvailableReplicas != wanted {
		return fmt.Errorf("Deployment %s rolls out: %d of %d pods are updated, %d available",
			d.Name, s.UpdatedReplicas, wanted, s.AvailableReplicas)
	}
	return nil
}

func daemonSetDone(d *appsv1.DaemonSet) error {
	wanted, s := d.Status.DesiredNumberScheduled, d.Status
	if s.ObservedGeneration < d.Generation || wanted == 0 || s.UpdatedNumberScheduled != wanted ||
		s.NumberAvailable != wanted {
		return fmt.Errorf("DaemonSet %s rolls out: %d of %d pods are updated, %d available",
			d.Name, s.UpdatedNumberScheduled, wanted, s.NumberAvailable)
	}
	return nil
}

// podsOf returns the UIDs of the pods of a workload.
func (x *test) podsOf(w workload) map[types.UID]corev1.Pod {
	x.T.Helper()
	now, err := x.rollout(x.T.Context(), w)
	x.Must(err)
	selector, err := metav1.LabelSelectorAsSelector(now.pods)
	x.Must(err)
	list, err := x.Cluster.Client.CoreV1().Pods(w.namespace).List(x.T.Context(), metav1.ListOptions{
		LabelSelector: selector.String(),
	})
	x.Must(err)
	pods := map[types.UID]corev1.Pod{}
	for _, pod := range list.Items {
		pods[pod.UID] = pod
	}
	return pods
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
			now, err := x.rollout(x.T.Context(), w)
			if err != nil {
				return err
			}
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
			return now.done
		})
	}
}

// awaitRollouts waits until all pods of the workloads have the latest template and are available.
func (x *test) awaitRollouts(workloads []workload) {
	x.T.Helper()
	for _, w := range workloads {
		x.Eventually(w.name+" is rolled out", func() error {
			now, err := x.rollout(x.T.Context(), w)
			if err != nil {
				return err
			}
			return now.done
		})
	}
}
