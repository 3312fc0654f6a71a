package diagnosis

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TypePods is the type of the finding of Pods. No condition has it.
const TypePods = "PodsNotReady"

// The reasons why pods of a workload do not run.
const (
	ReasonCrash        = "CrashLoopBackOff"
	ReasonImage        = "ImagePullBackOff"
	ReasonContainer    = "CreateContainerError"
	ReasonFailedCreate = "FailedCreate"
	ReasonFailed       = "PodFailed"
	ReasonNotReady     = "NotReady"
	ReasonUnscheduled  = "Unschedulable"
)

// PodReasons returns all reasons of TypePods. They are reasons of conditions and labels of alerts.
func PodReasons() []string {
	return []string{
		ReasonCrash, ReasonImage, ReasonContainer, ReasonFailedCreate, ReasonFailed, ReasonNotReady,
		ReasonUnscheduled,
	}
}

// Workload is a Deployment or DaemonSet with its pods.
type Workload struct {
	// Kind and Name are those of the object.
	Kind, Name string
	// Available, Wanted and Updated are numbers of pods.
	Available, Wanted, Updated int32
	// RolledOut says that the pods are as the newest generation of the object wants them.
	RolledOut bool
	Selector  *metav1.LabelSelector
	Pods      []corev1.Pod
	// Failure is why pods cannot be created, "" if they can.
	Failure string
}

// NewWorkload returns the state of a Deployment or DaemonSet, with those of the pods that belong to
// it and are not being deleted. Pods of a Deployment belong to ReplicaSets, so its selector must
// have selected them.
func NewWorkload(object metav1.Object, pods []corev1.Pod) Workload {
	w := Workload{Name: object.GetName()}
	switch o := object.(type) {
	case *appsv1.Deployment:
		w.Kind, w.Selector, w.Available = "Deployment", o.Spec.Selector, o.Status.AvailableReplicas
		w.Wanted, w.Updated = ptr.Deref(o.Spec.Replicas, 1), o.Status.UpdatedReplicas
		w.RolledOut = o.Status.ObservedGeneration >= o.Generation && o.Status.Replicas == w.Updated
		for _, c := range o.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				w.Failure = c.Message
			}
		}
	case *appsv1.DaemonSet:
		w.Kind, w.Selector, w.Available = "DaemonSet", o.Spec.Selector, o.Status.NumberAvailable
		w.Wanted, w.Updated = o.Status.DesiredNumberScheduled, o.Status.UpdatedNumberScheduled
		w.RolledOut = o.Status.ObservedGeneration >= o.Generation
	}
	w.RolledOut = w.RolledOut && min(w.Updated, w.Available) >= w.Wanted
	w.Pods = slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || w.Kind == "DaemonSet" && !metav1.IsControlledBy(&p, object)
	})
	return w
}

// Pods returns why a workload has fewer pods than it should; nil if no pod has a problem.
func Pods(w Workload) *Finding {
	reason, trouble, nodes := w.Trouble()
	if w.Available >= w.Wanted || trouble == "" {
		return nil
	}
	about := fmt.Sprintf("%s %s has %d of %d pods", w.Kind, w.Name, w.Available, w.Wanted)
	if w.Kind == "DaemonSet" && len(nodes) > 0 {
		where := "node "
		if len(nodes) > 1 {
			where = "nodes "
		}
		about += ". It fails on " + where + List(nodes) +
			", where pods cannot mount or unmount volumes"
	}
	return &Finding{
		Severity: Problem, Type: TypePods, Reason: reason, Message: about + ": " + trouble,
		Runbook: "openstackcsiunavailable", Said: SaidIn(trouble),
	}
}

// SaidIn returns what another component said in a text of PodTrouble: our words have no colon.
func SaidIn(trouble string) string {
	_, said, _ := strings.Cut(trouble, ": ")
	return said
}

// Trouble returns why the first pod with a problem does not run, or why no pod can be created; ""
// if there is no problem. The reason is one of PodReasons. Nodes are those of the pods.
func (w Workload) Trouble() (reason, text string, nodes []string) {
	for i := range w.Pods {
		severity, why, trouble := PodTrouble(&w.Pods[i])
		if severity != Problem {
			continue
		}
		// Pods that have failed stay after others have replaced them.
		if text == "" || reason == ReasonFailed && why != ReasonFailed {
			reason, text = why, trouble
		}
		if node := w.Pods[i].Spec.NodeName; node != "" {
			nodes = append(nodes, node)
		}
	}
	if text == "" && w.Failure != "" {
		// The API server names another pod at each attempt.
		failure := regexp.MustCompile(`^(?:\(combined from similar events\): )?(?:Error creating: )?`+
			`(?:pods "[^"]*" is forbidden: )?`).ReplaceAllString(w.Failure, "")
		return ReasonFailedCreate, "no more can be created: " + Short(failure), nil
	}
	if reason == ReasonFailed && w.Updated >= w.Wanted && w.Available >= w.Wanted {
		return "", "", nil
	}
	if text != "" && !strings.HasPrefix(text, "container ") {
		text = "a pod " + text
	}
	slices.Sort(nodes)
	return reason, text, slices.Compact(nodes)
}

// FailedCreate returns why a workload cannot create pods, from its newest event; "" if it can.
func FailedCreate(events []corev1.Event) string {
	for _, e := range NewestFirst(events) {
		switch e.Reason {
		case "FailedCreate":
			return e.Message
		case "SuccessfulCreate":
			return ""
		}
	}
	return ""
}

// NewestFirst returns sorted events.
func NewestFirst(events []corev1.Event) []corev1.Event {
	return slices.SortedStableFunc(slices.Values(events), func(a, b corev1.Event) int {
		return TimeOf(b).Compare(TimeOf(a))
	})
}

// TimeOf returns when an event last happened. Newer APIs of events fill other fields.
func TimeOf(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// List returns the first names of a list, and how many there are more.
func List(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// PodTrouble returns why a pod is not ready, with a reason of PodReasons. The text is "" for a pod
// that is ready, has ended, or is being deleted. A pod that starts is in progress.
func PodTrouble(pod *corev1.Pod) (severity Severity, reason, text string) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.DeletionTimestamp != nil {
		return "", "", ""
	}
	if pod.Status.Phase == corev1.PodFailed {
		return Problem, ReasonFailed, "has failed (" + cmp.Or(pod.Status.Reason, "Failed") + "): " +
			said(pod.Status.Message)
	}
	notReady := "is not ready"
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			return "", "", ""
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			why, _, _ := strings.Cut(c.Message, ". ") // then follows whether preemption would help
			return Problem, ReasonUnscheduled, "cannot be scheduled: " + Short(why)
		case c.Type == corev1.PodReady && c.Message != "":
			notReady = "is not ready: " + Short(c.Message)
		}
	}
	starts := ""
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		reason, text := containerTrouble(c)
		switch {
		case text != "":
			return Problem, reason, text
		case c.State.Waiting != nil:
			starts = c.State.Waiting.Reason
		}
	}
	if starts != "" {
		return Progress, starts, "starts (" + starts + ")"
	}
	if len(pod.Status.ContainerStatuses) == 0 {
		return Progress, string(pod.Status.Phase), "starts" // the kubelet has not begun
	}
	return Problem, ReasonNotReady, notReady
}

// containerTrouble returns why a container does not run. Its states change while the kubelet starts
// it or pulls its image again and again; the text does not.
func containerTrouble(c corev1.ContainerStatus) (reason, text string) {
	if waiting := c.State.Waiting; waiting != nil {
		switch {
		case waiting.Reason == "PodInitializing", waiting.Reason == "ContainerCreating":
			return "", ""
		case strings.Contains(waiting.Reason, "Image"):
			// The message of the back-off quotes the one of ErrImagePull.
			_, after, _ := strings.Cut(waiting.Message, "ErrImagePull: ")
			return ReasonImage, fmt.Sprintf("container %s is in %s: %s", c.Name, ReasonImage,
				said(cmp.Or(after, waiting.Message)))
		case waiting.Reason != ReasonCrash:
			return ReasonContainer, fmt.Sprintf("container %s is in %s: %s", c.Name, waiting.Reason,
				said(waiting.Message))
		}
	}
	ended := Ended(c)
	if ended == nil {
		return "", ""
	}
	why := ""
	if ended.Reason == "OOMKilled" {
		why = ", out of memory"
	}
	return ReasonCrash, fmt.Sprintf("container %s is in %s (exit %d%s): %s", c.Name, ReasonCrash,
		ended.ExitCode, why, cmp.Or(Short(lastLine(ended.Message)), NoMessage))
}

// NoMessage is what a container said that said nothing.
const NoMessage = "it left no message, so read the end of its log"

// Ended returns how a container ended that does not run for long; nil for others.
func Ended(c corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	switch {
	case c.Ready: // also an init container that has ended
		return nil
	case c.State.Terminated != nil:
		return c.State.Terminated
	}
	return c.LastTerminationState.Terminated
}

func said(message string) string { return cmp.Or(Short(message), "there is no message") }
