package kubectl

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// orCreator explains an object that does not exist by the controller that should create it.
func orCreator(explain explains) explains {
	return func(ctx context.Context, q question) *Explanation {
		e := explain(ctx, q)
		if e != nil || !apierrors.IsNotFound(q.err) {
			return e
		}
		missing := q.err
		q.err = nil
		links := q.creatorLinks(ctx)
		if len(links) > 0 {
			return &Explanation{State: "missing", Chain: links}
		}
		if q.guest.hidden["StatefulSets"] || q.guest.hidden["ReplicaSets"] {
			missing = fmt.Errorf("%w. You may not read StatefulSets and ReplicaSets, whose events say if "+
				"one cannot create it", missing)
		}
		q.err = missing
		return nil
	}
}

// creatorLinks returns why the object of the question was not created; none if its name is not that
// of an object of a StatefulSet or ReplicaSet.
func (q *question) creatorLinks(ctx context.Context) []Link {
	within := client.InNamespace(q.namespace)
	for _, set := range list[appsv1.StatefulSetList](ctx, q.guest, within).Items {
		if ordinal, found := ordinalOf(&set, q.kind, q.name); found {
			return q.notCreated(ctx, &set, q.name, ordinal)
		}
	}
	for _, set := range list[appsv1.ReplicaSetList](ctx, q.guest, within).Items {
		if q.kind != "pod" || !strings.HasPrefix(q.name, set.Name+"-") ||
			set.Status.Replicas >= ptr.Deref(set.Spec.Replicas, 1) {
			continue
		}
		if text := diagnosis.FailedCreate(events(ctx, q.guest, &set)); text != "" {
			return []Link{q.refused("ReplicaSet "+set.Name+" cannot create pods", text)}
		}
	}
	return nil
}

// ordinalOf returns the number of a pod or claim of a StatefulSet.
func ordinalOf(set *appsv1.StatefulSet, kind, name string) (ordinal int, found bool) {
	prefixes := []string{set.Name + "-"}
	if kind == "pvc" {
		prefixes = nil
		for _, claim := range set.Spec.VolumeClaimTemplates {
			prefixes = append(prefixes, claim.Name+"-"+set.Name+"-")
		}
	}
	for _, prefix := range prefixes {
		rest, begins := strings.CutPrefix(name, prefix)
		if ordinal, err := strconv.Atoi(rest); begins && err == nil {
			return ordinal, true
		}
	}
	return 0, false
}

// idleLinks says why workloads that use a claim have no pod, for which its StorageClass waits.
func (f *claimFacts) idleLinks(ctx context.Context) (links []Link) {
	q := &question{session: f.session, from: f.guest, namespace: f.claim.Namespace}
	within := client.InNamespace(q.namespace)
	const of = " %s, which uses the claim, "
	needs := func(t corev1.PodTemplateSpec) bool {
		return uses(&corev1.Pod{ObjectMeta: f.claim.ObjectMeta, Spec: t.Spec}, f.claim)
	}
	for _, d := range list[appsv1.DeploymentList](ctx, f.guest, within).Items {
		switch w := diagnosis.NewWorkload(&d, nil); {
		case !needs(d.Spec.Template):
		case w.Wanted == 0:
			links = append(links, linkf(Warning, "Deployment"+of+"has 0 replicas", d.Name).
				then("Run: kubectl scale deployment/%s -n %s --replicas=1", d.Name, d.Namespace))
		case w.Failure != "":
			links = append(links, q.refused(fmt.Sprintf("Deployment"+of+"cannot create pods", d.Name),
				w.Failure))
		default:
			links = append(links, linkf(Progress, "Deployment"+of+"has created no pod yet", d.Name).
				then("Run: kubectl openstack-csi why deployment/%s -n %s", d.Name, d.Namespace))
		}
	}
	for _, set := range list[appsv1.StatefulSetList](ctx, f.guest, within).Items {
		if n, found := ordinalOf(&set, "pvc", f.claim.Name); found {
			idle := q.notCreated(ctx, &set, fmt.Sprintf("pod %s-%d", set.Name, n), n)
			if ptr.Deref(set.Spec.Replicas, 1) == 0 {
				idle[0] = also(idle[0])
			}
			links = append(links, idle...)
		}
	}
	for _, job := range list[batchv1.JobList](ctx, f.guest, within).Items {
		if needs(job.Spec.Template) && ptr.Deref(job.Spec.Suspend, false) {
			links = append(links, linkf(Warning, "Job"+of+"is suspended", job.Name).
				then("Set spec.suspend of the Job to false, or see what suspends it"))
		} else if text := diagnosis.FailedCreate(events(ctx, f.guest, &job)); needs(job.Spec.Template) &&
			text != "" {
			links = append(links, q.refused(fmt.Sprintf("Job"+of+"cannot create pods", job.Name), text))
		}
	}
	return links
}

// notCreated returns why a StatefulSet has not created its pod or claim with a number.
func (q *question) notCreated(
	ctx context.Context, set *appsv1.StatefulSet, name string, ordinal int,
) []Link {
	first := int(ptr.Deref(set.Spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start)
	last := first + int(ptr.Deref(set.Spec.Replicas, 1)) - 1
	if last < first {
		return []Link{linkf(Problem, "StatefulSet %s has 0 replicas", set.Name).
			then("Run: kubectl scale statefulset/%s -n %s --replicas=%d", set.Name, q.namespace,
				ordinal-first+1)}
	} else if ordinal < first || ordinal > last {
		return []Link{linkf(Problem, "StatefulSet %s has the replicas %d to %d only", set.Name, first,
			last).then("Increase spec.replicas")}
	}
	for _, e := range diagnosis.NewestFirst(events(ctx, q.guest, set)) {
		pod := fmt.Sprintf(" %s-%d ", set.Name, ordinal)
		if e.Reason == "FailedCreate" && strings.Contains(e.Message+" ", pod) {
			return []Link{q.refused("StatefulSet "+set.Name+" cannot create it", e.Message)}
		}
	}
	if ordinal > first && set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		before := fmt.Sprintf("%s-%d", set.Name, ordinal-1)
		pod := find(ctx, q.guest, q.namespace, before, &corev1.Pod{})
		inOrder := "StatefulSet " + set.Name + " creates its pods in order"
		if pod == nil {
			return []Link{linkf(Progress, "%s, and pod %s is missing", inOrder, before).
				then("Run: kubectl openstack-csi why pod/%s -n %s", before, q.namespace)}
		} else if !isReady(pod) {
			return about(inOrder, q.podLinks(ctx, pod))
		}
	}
	l := linkf(Problem, "StatefulSet %s should have created %s, and no event says why it has not",
		set.Name, name)
	if q.guest.hidden["Events"] {
		l.Text += ". You may not read events, which may say why"
	}
	return []Link{l.then("Read the log of the kube-controller-manager")}
}

// refused says why the API server refused to create an object.
func (q *question) refused(fails, message string) Link {
	w := work{fails: fails, knows: "Change the object or the policy of namespace " + q.namespace}
	return w.error("FailedCreate", message)
}

// explainSet explains a StatefulSet by its first pods that do not exist, or are not ready.
func explainSet(ctx context.Context, q question, set *appsv1.StatefulSet) *Explanation {
	wanted := int(ptr.Deref(set.Spec.Replicas, 1))
	first := int(ptr.Deref(set.Spec.Ordinals, appsv1.StatefulSetOrdinals{}).Start)
	e := &Explanation{
		State: q.state(set, fmt.Sprintf("%d/%d ready", set.Status.ReadyReplicas, wanted)),
	}
	for ordinal, found := first, 0; ordinal < first+wanted && found < maxPods; ordinal++ {
		name := fmt.Sprintf("%s-%d", set.Name, ordinal)
		pod := find(ctx, q.guest, q.namespace, name, &corev1.Pod{})
		switch {
		case pod != nil && isReady(pod) && pod.DeletionTimestamp == nil:
			continue
		case q.guest.hidden["Pods"]:
			e.Chain = only(NotVisible, "its pods, so that nothing says which one is not ready")
			return e
		case pod == nil:
			e.Chain = append(e.Chain, about("pod "+name+" is missing",
				q.notCreated(ctx, set, name, ordinal))...)
		default:
			e.Chain = append(e.Chain, q.podLinks(ctx, pod)...)
		}
		found++
	}
	if len(e.Chain) == 0 {
		e.Chain = only(OK, "all %d pods are ready", wanted)
	}
	return e
}
