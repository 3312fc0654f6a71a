package kubectl

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
	"github.com/openstack-csi/csi-operator/pkg/position"
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
	State State `json:"state"`
	// Step is the part of the path of the object that is not done.
	Step string `json:"step,omitempty"`
	// Text is what is so, and where.
	Text string `json:"text"`
	// Next is what to do next, or who knows.
	Next string `json:"next,omitempty"`
	// Detail is what a component wrote.
	Detail  string `json:"detail,omitempty"`
	Runbook string `json:"runbook,omitempty"`

	rank  meaning.Rank
	topic meaning.Topic
	// answered is 1 if a service of OpenStack answered.
	answered int
	// said is the end of Text that another component wrote, which is shortened first. cause is what
	// it wrote, also if Text says what that means.
	said, cause string
	// node, quota and share are those that the error names, and status is that of the share.
	node, quota, share, status string
	// missing is the name of the object that the API server does not have.
	missing string
}

const (
	runbookOperations = "openstackcsioperationsfail"
	runbookAbsent     = "openstackcsioperatorabsent"
)

// linkf returns a link about the status of an object, without a next step.
func linkf(state State, format string, args ...any) Link {
	return Link{State: state, Text: fmt.Sprintf(format, args...), rank: proved}
}

// then returns a link with what to do next.
func (l Link) then(format string, args ...any) Link {
	l.Next = fmt.Sprintf(format, args...)
	return l
}

// only returns a chain of one link.
func only(state State, format string, args ...any) []Link {
	return []Link{linkf(state, format, args...)}
}

func linkOf(f diagnosis.Finding) Link {
	l := Link{State: f.Severity, Text: f.Message, Next: f.Next, Runbook: f.Runbook, rank: proved}
	l.said, l.cause = f.Said, f.Said
	if !strings.Contains(f.Message, f.Said) {
		l.Detail, l.said = f.Said, ""
	}
	return l
}

const (
	// maxSentence is how many characters the first sentence of an answer should have: six lines of a
	// terminal. maxSaid is how many of them are what another component wrote.
	maxSentence, maxSaid = 480, 160
)

// sentence returns what is so and what to do next. What another component wrote loses its middle.
// The last steps, which come again below, are left out if they have no room; the first one stays.
func (l Link) sentence(room int) string {
	text := strings.TrimSuffix(strings.Join(strings.Fields(l.Text), " "), ".")
	said := strings.TrimSuffix(strings.Join(strings.Fields(l.said), " "), ".")
	if ours, found := strings.CutSuffix(text, said); found {
		text = diagnosis.Ends(ours+diagnosis.Ends(said, maxSaid), maxSentence)
	}
	steps := strings.Split(l.Next, thenStep)
	for len(steps) > 1 && utf8.RuneCountInString(text+". "+strings.Join(steps, thenStep)) > room {
		steps = steps[:len(steps)-1]
	}
	return strings.TrimSuffix(text+". "+strings.Join(steps, thenStep), ". ")
}

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

// nearby marks what is wrong with other objects than the cause, nil if nothing is. What says the
// same as the cause is left out.
func nearby(links []Link, cause *Link) (marked []Link) {
	for _, l := range links {
		aside := also(l)
		if aside.State != l.State {
			if cause != nil && l.repeats(*cause) {
				continue
			}
			aside.Text = "not the cause: " + l.Text
		}
		marked = append(marked, aside)
	}
	return marked
}

// repeats returns whether a link says the same as another one: that the same object is missing,
// that OpenStack refused the login, or with the same words.
func (l Link) repeats(other Link) bool {
	return l.missing != "" && l.missing == other.missing || strings.Contains(l.Text, other.Text) ||
		strings.Contains(other.Text, l.Text) || l.rank == meaning.LoginRefused && other.rank == l.rank
}

// about puts in front of the texts of links which object they are about.
func about(object string, links []Link) []Link {
	named := slices.Clone(links)
	for i := range named {
		named[i].Text = object + ": " + named[i].Text
	}
	return named
}

// closest returns "did you mean" with the name that is most similar; "" if none is.
func closest(name string, names []string) string {
	if best := position.Similar(names, name); best != "" {
		return "Did you mean " + best + "?"
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
