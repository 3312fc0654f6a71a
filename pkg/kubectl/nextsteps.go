package kubectl

import (
	"cmp"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// What to do next depends on the state of the object that it is about: nobody deletes a pod that is
// being deleted, reads the log of a container that never ran, or adds a node beside one that is
// cordoned. Each state is asked here, and only here.

// thenFree returns a link with what ends the use of a volume by pods: otherwise, unless all of them
// are being deleted already.
func (l Link) thenFree(pods []corev1.Pod, otherwise string) Link {
	if len(pods) == 0 || slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		return p.DeletionTimestamp == nil
	}) {
		return l.then("%s", otherwise)
	}
	return l.then("It is being deleted. Run: kubectl openstack-csi why pod/%s -n %s", pods[0].Name,
		pods[0].Namespace)
}

// thenStart returns a link with what lets pods of a workload run. Reason is one of
// diagnosis.PodReasons or, in progress, of a container; pods says where they are.
func (l Link) thenStart(reason, pods string) Link {
	switch reason {
	case diagnosis.ReasonImage:
		return l.then("See the events of %s; check the name of the image, its pull secret, and whether "+
			"the node reaches the registry", pods)
	case diagnosis.ReasonContainer, diagnosis.ReasonFailedCreate:
		return l.then("Create or correct what the message names: see the events of %s", pods)
	case diagnosis.ReasonUnscheduled:
		return l.then("Compare what %s requests and tolerates with the nodes: kubectl describe nodes",
			pods)
	case diagnosis.ReasonCrash, diagnosis.ReasonFailed, diagnosis.ReasonNotReady:
		return l.then("Read the log and the events of %s", pods)
	}
	return l.then("Wait, or see the events of %s", pods)
}

// thenRepair returns a link with what lets a pod of a driver run. What a container said at its end
// can tell more.
func (l Link) thenRepair(pod *corev1.Pod) Link {
	_, reason, _ := diagnosis.PodTrouble(pod)
	for _, c := range pod.Status.ContainerStatuses {
		ended := diagnosis.Ended(c)
		if ended == nil || reason != diagnosis.ReasonCrash {
			continue
		}
		if m := meaning.Of(fault.Parse(ended.Message)); m.Rank != meaning.Unknown && m.Next != "" {
			return l.then("%s", m.Next)
		}
	}
	return l.thenStart(reason, "pod "+pod.Namespace+"/"+pod.Name)
}

// barred says why the scheduler does not choose a node for the pod, and what changes that; "" if it
// may choose it.
func (f *podFacts) barred(n *corev1.Node) (why, next string) {
	taint, repelled := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints,
		f.pod.Spec.Tolerations, func(t *corev1.Taint) bool {
			return t.Effect != corev1.TaintEffectPreferNoSchedule
		}, true)
	selected, err := nodeaffinity.GetRequiredNodeAffinity(f.pod).Match(n)
	switch {
	case n.Spec.Unschedulable:
		return "is cordoned", "Run: kubectl uncordon " + n.Name
	case repelled && isCondition(taint):
		why, next = f.ailing(n)
		return cmp.Or(why, "is "+strings.ReplaceAll(path.Base(taint.Key), "-", " ")),
			cmp.Or(next, "Repair it: kubectl openstack-csi why node/"+n.Name)
	case repelled:
		return "has the taint " + strings.TrimSuffix(taint.ToString(), ":"),
			"Tolerate the taint in the pod, or remove it from the node"
	case err != nil || !selected:
		return "is not one that the pod selects", "Change what the pod selects"
	}
	return "", ""
}
