// Package meaning judges parsed errors: what stops a request, whether another error is its cause,
// and what to do next. The commands of pkg/kubectl call it. It decides by the parts of an error,
// never by the names in it, with the rules of table.txt.
package meaning

import (
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
)

// Meaning is what an error says about storage.
type Meaning struct {
	// Stops is what stops the request, as the end of a sentence, such as "quota gigabytes of the
	// OpenStack project has 3 of 10 left"; "" if the text itself is enough.
	Stops string
	// Next is what to do next, as a sentence without a period; "" if the text does not tell.
	Next string
	// Rank says how far the error leads.
	Rank Rank
	// Topic names the objects of the cluster that tell more, "" if none does.
	Topic Topic
	// Quota is the quota of the topic Quota, such as gigabytes_TYPE, "" if it is not known.
	Quota string
}

// Rank orders errors of one step: a higher one is closer to the cause.
type Rank int

// The ranks, from the weakest.
const (
	// Consequence is what follows from an earlier error, such as "an operation already exists".
	Consequence Rank = iota
	// Unknown is an error that nobody has judged. Something else may be the cause.
	Unknown
	// Unreachable says that OpenStack or the driver did not answer.
	Unreachable
	// LoginRefused says that OpenStack refused the login, so the credentials are the cause.
	LoginRefused
	// Answered says that the driver, OpenStack or the node refused the request: nothing else does.
	Answered
)

// Topic is a kind of objects that tell more about an error.
type Topic string

// The topics.
const (
	// Attached says that an instance uses the volume: see the VolumeAttachments of the volume.
	Attached Topic = "attached"
	// Class says that the parameters of the class are wrong: see UnknownParameters.
	Class Topic = "class"
	// Instance says that OpenStack does not have an instance: see the node and its CSINode.
	Instance Topic = "instance"
	// Metadata says that a node does not learn which instance it is: it may be none.
	Metadata Topic = "metadata"
	// Network is the network between a node and the server of a share.
	Network Topic = "network"
	// Quota says that a quota of the OpenStack project stops the request: see who fills it.
	Quota Topic = "quota"
	// ReadOnly says that nobody can write to a file system: see how it is mounted.
	ReadOnly Topic = "read-only"
	// Secret says that a Secret is missing or wrong: see the objects that name one.
	Secret Topic = "secret"
	// Registry says that a registry wants a login: see the pull Secrets of the pod.
	Registry Topic = "registry"
	// SELinux says that another pod mounts the volume with another label.
	SELinux Topic = "selinux"
	// Snapshots says that snapshots keep the volume or share: see the VolumeSnapshotContents.
	Snapshots Topic = "snapshots"
	// Source says that the class does not fit the source of a volume: see the class of the source.
	Source Topic = "source"
	// Zone says that zones do not fit: see the topology of the class, the volume and the nodes.
	Zone Topic = "zone"
)

const (
	// limit is how many characters a text of the table has at most, and longest how many each text of
	// others in it.
	limit, longest = 110, 160
	// ends is how many ends of a text after a colon are compared at most. What OpenStack says has no
	// limit of its own.
	ends = 64
)

// Of returns what an error means. The rank is Unknown if no rule knows it.
func Of(f fault.Fault) Meaning { return OfEvent("", f) }

// OfEvent returns what an event means: what its error means, else what its reason means.
func OfEvent(reason string, f fault.Fault) Meaning {
	m, _ := judge(f, reason)
	return m
}

// judge returns the meaning of the first rule that applies, and this rule.
func judge(f fault.Fault, reason string) (Meaning, rule) {
	facts, said := factsOf(f, reason), textsOf(f)
	for r := range rules() {
		if m, applies := r.judge(facts, said); applies {
			return m, r
		}
	}
	return Meaning{Rank: Unknown}, rule{}
}

// textsOf returns the texts of an error that rules compare: what OpenStack, the driver, a command
// or the scheduler said, and each end of such a text after a colon, since components put their own
// words before those of others.
func textsOf(f fault.Fault) (texts []string) {
	whole := []string{f.Message}
	switch {
	case f.Answer != nil && f.Answer.Message != "":
		whole = []string{f.Answer.Message}
	case f.Command != nil && f.Command.Output != "":
		whole = append(strings.Split(f.Command.Output, "\n"), f.Message)
	case f.Scheduling != nil:
		for _, r := range f.Scheduling.Reasons {
			whole = append(whole, r.Text)
		}
	}
	for _, text := range whole {
		rest, found := clean(text), true
		for n := 0; found && n < ends; n++ {
			texts = append(texts, rest)
			_, rest, found = strings.Cut(rest, ": ")
		}
	}
	return texts
}

// clean returns a text in one line, without the marks of another service around it.
func clean(text string) string {
	text, _, _ = strings.Cut(strings.Join(strings.Fields(text), " "), " (HTTP ")
	return strings.TrimRight(text, " .;")
}
