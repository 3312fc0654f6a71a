package kubectl

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// State is the state of a link: the severity of a finding, OK or NotVisible.
type State = diagnosis.Severity

// The states of a link.
const (
	Problem  = diagnosis.Problem
	Progress = diagnosis.Progress
	Warning  = diagnosis.Warning

	// OK means that the link works.
	OK State = "OK"
	// NotVisible means that the objects could not be read.
	NotVisible State = "NotVisible"
)

// Link is one part of the chain from an object to the cloud.
type Link struct {
	State   State  `json:"state"`
	Text    string `json:"text"`
	Runbook string `json:"runbook,omitempty"`
}

const (
	runbookOperations = "openstackcsioperationsfail"
	runbookAbsent     = "openstackcsioperatorabsent"
)

// linkf returns a link without a runbook.
func linkf(state State, format string, args ...any) Link {
	return Link{State: state, Text: fmt.Sprintf(format, args...)}
}

// only returns a chain of one link.
func only(state State, format string, args ...any) []Link {
	return []Link{linkf(state, format, args...)}
}

func linkOf(f diagnosis.Finding) Link { return Link{f.Severity, f.Message, f.Runbook} }

// causeOf returns the first link that is a problem, else the first that is in progress.
func causeOf(links []Link) *Link {
	for _, state := range []State{Problem, Progress} {
		if i := slices.IndexFunc(links, func(l Link) bool { return l.State == state }); i >= 0 {
			return &links[i]
		}
	}
	return nil
}

// also returns a link that is not the cause.
func also(l Link) Link {
	if l.State == Problem || l.State == Progress {
		l.State = Warning
	}
	return l
}

// nearby marks what is wrong with other objects.
func nearby(links []Link) []Link {
	marked := slices.Clone(links)
	for i, l := range marked {
		if marked[i] = also(l); marked[i] != l {
			marked[i].Text = "not the cause: " + l.Text
		}
	}
	return marked
}

// stale is the age at which an event does not say any more what is wrong now. Sidecars and the
// kubelet retry sooner.
const stale = 10 * time.Minute

// certainty says how far an error leads to its cause.
type certainty int

const (
	// unknown means that the error may have its cause in another link.
	unknown certainty = iota
	// loginRefused means that OpenStack refused the login.
	loginRefused
	// decisive means that the driver or OpenStack worked, and refused the request.
	decisive
)

// isStorage returns whether a CSI driver or a sidecar caused an event of a claim, a volume or a
// snapshot.
func isStorage(reason string) bool {
	return slices.Contains([]string{
		"ProvisioningFailed", "VolumeResizeFailed", "VolumeModifyFailed", "VolumeFailedDelete",
		"FileSystemResizeFailed", "SnapshotCreationFailed", "SnapshotContentCreationFailed",
		"SnapshotDeleteError", "SnapshotContentCheckandUpdateFailed",
	}, reason)
}

// isMount returns whether an event is about preparing the volumes of a pod. It has no meaning after
// a container has started.
func isMount(reason string) bool {
	return slices.Contains([]string{"FailedAttachVolume", "FailedMount", "FailedMapVolume"}, reason)
}

// recent returns the newest Warning event of each reason since a time, the newest first.
func recent(events []corev1.Event, since time.Time) []corev1.Event {
	seen := map[string]bool{}
	return slices.DeleteFunc(diagnosis.NewestFirst(events), func(e corev1.Event) bool {
		if e.Type != corev1.EventTypeWarning || seen[e.Reason] || diagnosis.TimeOf(e).Before(since) {
			return true
		}
		seen[e.Reason] = true
		return false
	})
}

// event returns what an event says. A text of another component has no meaning for storage.
func (s *session) event(e corev1.Event, storage bool) (Link, certainty) {
	at := diagnosis.TimeOf(e)
	l, known := linkf(Problem, "%s, %s ago: %s", e.Reason, s.age(at), e.Message), unknown
	if storage {
		l, known = errorLink(l.Text)
	}
	if s.clock.Since(at) > stale {
		l = also(l)
		l.Text, known = "earlier: "+l.Text, unknown
	}
	return l, known
}

// said returns what the recent events say, the newest first, and how far the newest leads to the
// cause.
func (s *session) said(events []corev1.Event, since time.Time) (links []Link, known certainty) {
	for i, e := range recent(events, since) {
		l, leads := s.event(e, isStorage(e.Reason))
		if i == 0 {
			known = leads
		}
		links = append(links, l)
	}
	return links, known
}

// meaning returns what an error of a driver means, "" if it is not known.
func meaning(message string) (string, certainty) {
	if found := regexp.MustCompile(`(?i)exceeds allowed (\w+) quota\. Requested (\d+)\w*, quota is ` +
		`(\d+)\w* and (\d+)\w* has been consumed`).FindStringSubmatch(message); found != nil {
		all, _ := strconv.Atoi(found[3]) // the pattern allows digits only
		used, _ := strconv.Atoi(found[4])
		return fmt.Sprintf("the request is for %s, and quota %s of the OpenStack project has %d of %d "+
			"left. Request less, choose another type, or raise the quota", found[2], found[1],
			max(all-used, 0), all), decisive
	}
	for _, known := range []struct {
		pattern, means string
		leads          certainty
	}{
		{
			`(?i)exceeds.?limit|larger than (the )?maximum allowed`,
			"the request is larger than OpenStack allows for one volume or share", decisive,
		},
		{`(?i)over.?limit|limit.?exceeded|quota`, "the quota of the OpenStack project is full", decisive},
		{
			`(?i)(share|volume).?type.*not.*found`, "OpenStack does not offer the type of the class",
			decisive,
		},
		{
			`(?i)volume .* status must be .*available.* in-use`,
			"the volume is in use. Set snapshotClass.forceCreate in operator.yaml to true, or stop the " +
				"pods that use the volume", decisive,
		},
		{
			`(?i)(is|status) in (an )?error( state| status)?\b|in error state|status:? "?error"?\b`,
			"the volume, share or snapshot is in status error in OpenStack. Ask its administrator, or " +
				"delete it there so that it is created again", decisive,
		},
		{
			`(?i)no valid (host|backend)`,
			"no backend of OpenStack can hold the volume: its type, zone or free space do not fit",
			decisive,
		},
		{
			`(?i)\b401\b|unauthori[sz]ed|authentication failed`, "OpenStack refused the login",
			loginRefused,
		},
		{
			`code = (InvalidArgument|NotFound|AlreadyExists|OutOfRange|ResourceExhausted|` +
				`FailedPrecondition|PermissionDenied|Unimplemented)\b`, "", decisive,
		},
	} {
		if regexp.MustCompile(known.pattern).MatchString(message) {
			return known.means, known.leads
		}
	}
	return "", unknown
}

// errorLink returns what an error in a status of storage says.
func errorLink(message string) (Link, certainty) {
	means, known := meaning(message)
	if means != "" {
		message = means + ". " + message
	}
	return Link{Problem, message, runbookOperations}, known
}

// closest returns "did you mean" with the name that is most similar; "" if none is.
func closest(name string, names []string) string {
	if best := choice.Similar(names, name); best != "" {
		return ". Did you mean " + best + "?"
	}
	return ""
}

func namesOf[T any, P interface {
	*T
	GetName() string
}](objects []T) (names []string) {
	for i := range objects {
		names = append(names, P(&objects[i]).GetName())
	}
	return names
}
