package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// maxPods is the number of pods that a chain describes.
const maxPods = 5

// template is a pod template that a workload had, and when it got the template.
type template struct {
	revision int64
	since    time.Time
	pod      *corev1.PodTemplateSpec
}

// rolloutOf says when and why a workload got its newest template; "" if it has only had one.
func rolloutOf(workload metav1.Object, now time.Time, templates []template) string {
	if len(templates) < 2 {
		return ""
	}
	slices.SortFunc(templates, func(a, b template) int { return cmp.Compare(b.revision, a.revision) })
	return fmt.Sprintf("rolled out %s ago because %s", age(now, templates[0].since),
		cause(workload, templates[1].pod, templates[0].pod))
}

// templatesOfReplicaSets returns the templates of a Deployment. A ReplicaSet outlives events.
func templatesOfReplicaSets(d *appsv1.Deployment, sets []appsv1.ReplicaSet) []template {
	var templates []template
	for i, set := range sets {
		if !metav1.IsControlledBy(&sets[i], d) {
			continue
		}
		var revision int64
		_, err := fmt.Sscan(set.Annotations["deployment.kubernetes.io/revision"], &revision)
		if err == nil {
			templates = append(templates,
				template{revision, set.CreationTimestamp.Time, &sets[i].Spec.Template})
		}
	}
	return templates
}

// templatesOfRevisions returns the templates of a DaemonSet.
func templatesOfRevisions(d *appsv1.DaemonSet, revisions []appsv1.ControllerRevision) []template {
	var templates []template
	for i, r := range revisions {
		var data struct {
			Spec struct {
				Template corev1.PodTemplateSpec `json:"template"`
			} `json:"spec"`
		}
		if metav1.IsControlledBy(&revisions[i], d) && json.Unmarshal(r.Data.Raw, &data) == nil {
			templates = append(templates,
				template{r.Revision, r.CreationTimestamp.Time, &data.Spec.Template})
		}
	}
	return templates
}

// WorkloadFacts are the objects about a Deployment or a DaemonSet; one of the two is nil.
type WorkloadFacts struct {
	Now         time.Time
	Deployment  *appsv1.Deployment
	ReplicaSets []appsv1.ReplicaSet
	DaemonSet   *appsv1.DaemonSet
	Revisions   []appsv1.ControllerRevision
	// Pods are those that the selector of the workload selects.
	Pods   []corev1.Pod
	Events []corev1.Event
	// System is that of the driver to which the workload belongs, or nil.
	System *System
}

// Workload returns the links from a workload to its pods and to the cloud.
func Workload(f WorkloadFacts) []Link {
	links := []Link{f.link()}
	workload := f.workload()
	if trouble := diagnosis.Pods(workload); trouble != nil {
		links = append([]Link{linkOf(*trouble)}, also(links[0]))
	}
	waiting := 0
	for i := range f.Pods {
		if state, trouble := podTrouble(&f.Pods[i]); trouble != "" {
			if waiting++; waiting <= maxPods {
				links = append(links, Link{state, "pod " + f.Pods[i].Name + ": " + trouble, ""})
			}
		}
	}
	if waiting > maxPods {
		links = append(links, Link{Problem, fmt.Sprintf("%d more pods", waiting-maxPods), ""})
	}
	if links[0].State != OK || waiting > 0 {
		for _, e := range recent(f.Events, time.Time{}) {
			l, _ := eventLink(e, f.Now, false)
			links = append(links, l)
		}
	}
	if f.System != nil {
		links = append(links, nearby(f.System.cloudLinks(unknown, false))...)
	}
	return links
}

func (f WorkloadFacts) workload() diagnosis.Workload {
	if f.Deployment != nil {
		return deploymentOf(f.Deployment, f.Pods)
	}
	w := daemonSetOf(f.DaemonSet, f.Pods)
	w.Pods, w.Failure = f.Pods, FailedCreate(f.Events)
	return w
}

// FailedCreate returns why a workload cannot create pods, from its newest event; "" if it can.
func FailedCreate(events []corev1.Event) string {
	for _, e := range newestFirst(events) {
		switch e.Reason {
		case "FailedCreate":
			return e.Message
		case "SuccessfulCreate":
			return ""
		}
	}
	return ""
}

func (f WorkloadFacts) link() Link {
	if f.Deployment != nil {
		return deploymentLink(f.Deployment, f.ReplicaSets, f.Now)
	}
	return daemonSetLink(f.DaemonSet, f.Revisions, f.Now)
}

func workloadLink(name string, available, wanted, updated int32, rollout string) Link {
	state := OK
	switch {
	case available == 0 && wanted > 0:
		state = Problem
	case available < wanted || updated < wanted:
		state = Progress
	}
	text := fmt.Sprintf("%s %d/%d", name, available, wanted)
	if updated < wanted {
		text += fmt.Sprintf(", %d of %d up to date", updated, wanted)
	}
	if rollout != "" {
		text += ", " + rollout
	}
	return Link{state, text, ""}
}

// deploymentLink says why a Deployment rolled out, if its ReplicaSets are known.
func deploymentLink(d *appsv1.Deployment, sets []appsv1.ReplicaSet, now time.Time) Link {
	return workloadLink("Deployment "+d.Name, d.Status.AvailableReplicas,
		ptr.Deref(d.Spec.Replicas, 1), d.Status.UpdatedReplicas,
		rolloutOf(d, now, templatesOfReplicaSets(d, sets)))
}

// daemonSetLink says why a DaemonSet rolled out, if its revisions are known.
func daemonSetLink(
	d *appsv1.DaemonSet, revisions []appsv1.ControllerRevision, now time.Time,
) Link {
	return workloadLink("DaemonSet "+d.Name, d.Status.NumberAvailable,
		d.Status.DesiredNumberScheduled, d.Status.UpdatedNumberScheduled,
		rolloutOf(d, now, templatesOfRevisions(d, revisions)))
}

// deploymentOf returns the state of a Deployment and of its pods.
func deploymentOf(d *appsv1.Deployment, pods []corev1.Pod) diagnosis.Workload {
	w := diagnosis.Workload{
		Kind: "Deployment", Name: d.Name, Available: d.Status.AvailableReplicas,
		Wanted: ptr.Deref(d.Spec.Replicas, 1), Pods: pods,
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			w.Failure = c.Message
		}
	}
	return w
}

// daemonSetOf returns the state of a DaemonSet and of those of the pods that belong to it.
func daemonSetOf(d *appsv1.DaemonSet, pods []corev1.Pod) diagnosis.Workload {
	return diagnosis.Workload{
		Kind: "DaemonSet", Name: d.Name, Available: d.Status.NumberAvailable,
		Wanted: d.Status.DesiredNumberScheduled,
		Pods: slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
			return !metav1.IsControlledBy(&p, d)
		}),
	}
}

// IsReady returns whether a pod is ready, has ended, or is being deleted.
func IsReady(pod *corev1.Pod) bool {
	_, trouble := podTrouble(pod)
	return trouble == ""
}

func podTrouble(pod *corev1.Pod) (State, string) {
	severity, _, text := diagnosis.PodTrouble(pod)
	return State(severity), text
}
