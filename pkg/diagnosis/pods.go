package diagnosis

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// TypePods is the type of the finding of Pods. No condition has it.
const TypePods = "PodsNotReady"

// maxMessage is the maximum length of what a container or another component says.
const maxMessage = 256

// Workload is a Deployment or DaemonSet with the pods that its selector selects.
type Workload struct {
	// Kind and Name are those of the object.
	Kind, Name string
	// Available and Wanted are numbers of pods.
	Available, Wanted int32
	Pods              []corev1.Pod
	// Failure is why pods cannot be created, "" if they can.
	Failure string
}

// Pods returns why a workload has fewer pods than it should; nil if no pod has a problem.
func Pods(w Workload) *Finding {
	if w.Available >= w.Wanted {
		return nil
	}
	f := &Finding{
		Severity: Problem, Type: TypePods, Reason: "FailedCreate", Runbook: "openstackcsiunavailable",
	}
	about := fmt.Sprintf("%s %s has %d of %d pods", w.Kind, w.Name, w.Available, w.Wanted)
	trouble := ""
	var nodes []string
	for i := range w.Pods {
		severity, reason, text := PodTrouble(&w.Pods[i])
		if severity != Problem {
			continue
		}
		if trouble == "" {
			f.Reason, trouble = reason, text
		}
		if node := w.Pods[i].Spec.NodeName; node != "" && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	switch {
	case trouble == "" && w.Failure == "":
		return nil
	case trouble == "":
		f.Message = about + ", and no more can be created: " + Short(w.Failure)
		return f
	case w.Kind == "DaemonSet" && len(nodes) > 0:
		slices.Sort(nodes)
		where := "node "
		if len(nodes) > 1 {
			where = "nodes "
		}
		about += ". It fails on " + where + List(nodes) +
			", where pods cannot mount or unmount volumes"
	}
	f.Message = about + ": " + trouble
	return f
}

// List returns the first names of a list, and how many there are more.
func List(names []string) string {
	const most = 3
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// PodTrouble returns why a pod is not ready, with the reason in one word. The text is "" for a pod
// that is ready, has ended, or is being deleted. A pod that starts is in progress.
func PodTrouble(pod *corev1.Pod) (severity Severity, reason, text string) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.DeletionTimestamp != nil {
		return "", "", ""
	}
	if pod.Status.Phase == corev1.PodFailed {
		reason := cmp.Or(pod.Status.Reason, "Failed")
		return Problem, reason, "has failed (" + reason + "): " +
			Short(cmp.Or(pod.Status.Message, "there is no message"))
	}
	notReady := "is not ready"
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
			return "", "", ""
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			return Problem, cmp.Or(c.Reason, "Unschedulable"), "cannot be scheduled: " + Short(c.Message)
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
	return Problem, "NotReady", notReady
}

// containerTrouble returns why a container does not run, or does not run for long.
func containerTrouble(c corev1.ContainerStatus) (reason, text string) {
	ended, waiting := c.LastTerminationState.Terminated, c.State.Waiting
	switch {
	case waiting != nil && slices.Contains([]string{"PodInitializing", "ContainerCreating"},
		waiting.Reason):
		return "", ""
	case waiting != nil && (ended == nil || waiting.Reason != "CrashLoopBackOff"):
		return waiting.Reason, fmt.Sprintf("container %s is in %s: %s", c.Name, waiting.Reason,
			Short(cmp.Or(waiting.Message, "there is no message")))
	case waiting != nil:
		reason = waiting.Reason
	case c.State.Terminated != nil && c.State.Terminated.Reason != "Completed":
		ended, reason = c.State.Terminated, cmp.Or(c.State.Terminated.Reason, "Error")
	case c.State.Running != nil && !c.Ready && ended != nil && c.RestartCount > 0:
		reason = "Restarts"
	default:
		return "", ""
	}
	said := Short(lastLine(ended.Message))
	if said == "" {
		said = "it left no message, so read the end of its log"
	}
	why := ""
	if ended.Reason == "OOMKilled" {
		why = ", out of memory"
	}
	return reason, fmt.Sprintf("container %s is in %s (exit %d%s): %s", c.Name, reason,
		ended.ExitCode, why, said)
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}

// Short returns one line of at most 256 characters, in which credentials are replaced.
func Short(text string) string {
	secret := regexp.MustCompile(`(?i)((?:password|passwd|secret|token)\w*["']?\s*[:=]\s*)` +
		`(?:"[^"]*"|'[^']*'|[^\s"',;&}]+)`)
	text = secret.ReplaceAllString(strings.Join(strings.Fields(text), " "), "${1}***")
	text = regexp.MustCompile(`(://)[^/\s@]+@`).ReplaceAllString(text, "${1}***@")
	if runes := []rune(text); len(runes) > maxMessage {
		text = string(runes[:maxMessage-1]) + "…"
	}
	return text
}
