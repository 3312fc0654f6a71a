package explain

import (
	"fmt"
	"slices"

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
	// NotVisible means that the objects could not be read.
	NotVisible State = "NotVisible"
)

// Link is one part of the chain from an object to the cloud.
type Link struct {
	State   State  `json:"state"`
	Text    string `json:"text"`
	Runbook string `json:"runbook,omitempty"`
}

// Linkf returns a link without a runbook.
func Linkf(state State, format string, args ...any) Link {
	return Link{State: state, Text: fmt.Sprintf(format, args...)}
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
