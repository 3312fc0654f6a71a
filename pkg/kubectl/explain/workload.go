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
	object, templates := f.object()
	links := []Link{workloadLink(object, templates, f.Now)}
	workload := diagnosis.NewWorkload(object, f.Pods)
	workload.Pods = f.Pods
	workload.Failure = cmp.Or(workload.Failure, diagnosis.FailedCreate(f.Events))
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
		said, _ := eventLinks(recent(f.Events, time.Time{}), f.Now)
		links = append(links, said...)
	}
	if f.System != nil {
		links = append(links, nearby(f.System.cloudLinks(unknown, false))...)
	}
	return links
}

func (f WorkloadFacts) object() (metav1.Object, []template) {
	if f.Deployment != nil {
		return f.Deployment, templatesOfReplicaSets(f.Deployment, f.ReplicaSets)
	}
	return f.DaemonSet, templatesOfRevisions(f.DaemonSet, f.Revisions)
}

// workloadLink says how many pods run, and why a workload rolled out if its templates are known.
func workloadLink(object metav1.Object, templates []template, now time.Time) Link {
	w := diagnosis.NewWorkload(object, nil)
	state := OK
	switch {
	case w.Available == 0 && w.Wanted > 0:
		state = Problem
	case w.Available < w.Wanted || w.Updated < w.Wanted:
		state = Progress
	}
	text := fmt.Sprintf("%s %s %d/%d", w.Kind, w.Name, w.Available, w.Wanted)
	if w.Updated < w.Wanted {
		text += fmt.Sprintf(", %d of %d up to date", w.Updated, w.Wanted)
	}
	if rollout := rolloutOf(object, now, templates); rollout != "" {
		text += ", " + rollout
	}
	return Link{state, text, ""}
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
