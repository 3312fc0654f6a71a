package explain

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// State is the state of a link.
type State string

// The states of a link. The first three are the severities of findings.
const (
	Problem  = State(diagnosis.Problem)
	Progress = State(diagnosis.Progress)
	Warning  = State(diagnosis.Warning)

	// OK means that the link works.
	OK State = "OK"
	// NotReached means that an earlier link prevents this one.
	NotReached State = "NotReached"
	// NotVisible means that the objects could not be read.
	NotVisible State = "NotVisible"
)

// Link is one part of the chain from an object to the cloud.
type Link struct {
	State   State  `json:"state"`
	Text    string `json:"text"`
	Runbook string `json:"runbook,omitempty"`
}

func linkOf(f diagnosis.Finding) Link { return Link{State(f.Severity), f.Message, f.Runbook} }

// Cause returns the first link that is a problem, else the first that is in progress.
func Cause(links []Link) *Link {
	for _, state := range []State{Problem, Progress} {
		if i := slices.IndexFunc(links, func(l Link) bool { return l.State == state }); i >= 0 {
			return &links[i]
		}
	}
	return nil
}

// eventLinks returns a link for the newest Warning event of each reason, and says what OpenStack
// answered.
func eventLinks(events []corev1.Event, now time.Time) []Link {
	var links []Link
	seen := map[string]bool{}
	for _, e := range newestFirst(events) {
		if e.Type != corev1.EventTypeWarning || seen[e.Reason] || e.Reason == "FailedScheduling" {
			continue // the condition of the pod says why it is not scheduled
		}
		seen[e.Reason] = true
		text := fmt.Sprintf("%s, %s ago: %s", e.Reason, age(now, timeOf(e)), e.Message)
		if means := meaning(e.Message); means != "" {
			text = means + ". " + text
		}
		links = append(links, Link{Problem, text, "openstackcsioperationsfail"})
	}
	return links
}

// meaning returns what an error of a driver means, "" if it is not known.
func meaning(message string) string {
	for _, known := range []struct{ pattern, means string }{
		{`(?i)over.?limit|limit.?exceeded|quota`, "the quota of the OpenStack project is full"},
		{`(?i)(share|volume).?type.*not.*found`, "OpenStack does not offer the type of the class"},
		{
			`(?i)volume .* status must be .*available.* in-use`,
			"the volume is in use. Set snapshotClass.forceCreate in operator.yaml to true, or stop the " +
				"pods that use the volume",
		},
		{`(?i)\b401\b|unauthori[sz]ed|authentication failed`, "OpenStack refused the login"},
	} {
		if regexp.MustCompile(known.pattern).MatchString(message) {
			return known.means
		}
	}
	return ""
}

func newestFirst(events []corev1.Event) []corev1.Event {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b corev1.Event) int {
		return timeOf(b).Compare(timeOf(a))
	})
	return sorted
}

// timeOf returns when an event last happened. Newer APIs of events fill other fields.
func timeOf(e corev1.Event) time.Time {
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
