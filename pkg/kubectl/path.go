package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// step is a part of the path of an object, from its creation until it works, or until it is gone.
type step struct {
	name string
	done bool
	// ok says that the step is done; nil if nobody asks.
	ok []Link
	// why returns what all objects of the step say that can tell why it is not done.
	why func(context.Context) []Link
}

// because returns why a step is not done, as the object itself tells it.
func because(links ...Link) func(context.Context) []Link {
	return func(context.Context) []Link { return links }
}

// keptBy says that only finalizers keep an object that is being deleted.
func keptBy(finalizers []string) Link {
	return linkf(Problem, "kept by the finalizers %s", strings.Join(finalizers, ", ")).
		then("Check what sets them")
}

// walk returns the links of a path until the first step that something stops. A step that is only
// in progress may wait for a later one, such as a volume for the pods of its driver.
func walk(ctx context.Context, path []step) (links []Link) {
	for _, s := range path {
		if s.done {
			links = append(links, s.ok...)
			continue
		}
		for _, l := range s.why(ctx) {
			if l.State == Problem || l.State == Progress || l.State == Warning {
				l.Step = cmp.Or(l.Step, s.name)
			}
			links = append(links, l)
		}
		if c := causeOf(links); c != nil && c.State == Problem {
			break
		}
	}
	return links
}

// proved is the rank of what a status of an object of the step says.
const proved = meaning.Answered + 1

// best returns links with the best evidence first, and its rank. What a service of OpenStack said
// is better than a request that did not end.
func best(links []Link) ([]Link, meaning.Rank) {
	sorted := slices.SortedStableFunc(slices.Values(links), func(a, b Link) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(b.answered, a.answered))
	})
	if len(sorted) == 0 {
		return nil, meaning.Unknown
	}
	return sorted, sorted[0].rank
}

// judge orders what objects of a step say, and what is wrong around it. If a component of the step
// answered, nothing else is the cause.
func judge(own []Link, around func(rank meaning.Rank) []Link) []Link {
	own, rank := best(own)
	links := around(rank)
	if cause := causeOf(links); rank < meaning.Answered && cause != nil && cause.State == Problem {
		return append(links, own...)
	} else if rank >= meaning.Answered {
		links = nearby(links, &own[0])
	}
	return append(own, links...)
}

// work is what a component does in a step, and whose errors have a meaning.
type work struct {
	// fails says what an error stops, and where, such as "volume v cannot be attached to node n".
	fails string
	// reasons are those of the events of the component, nil means all.
	reasons []string
	// knows is who can say more about an error that tells no next step.
	knows   string
	runbook string
	// names are the IDs of the volume or share, and of the snapshot, that the work is about.
	names map[fault.Noun]string
	// exists is the name of an object that was read. An error that it is missing is over.
	exists string
	// since is when the work could start at the earliest.
	since time.Time
}

// error returns what an error of the component means. The reason is of an event, "" for a status.
func (w work) error(reason, text string) Link {
	parsed := fault.Parse(text)
	names := map[fault.Noun]string{}
	maps.Copy(names, w.names)
	maps.Copy(names, parsed.Names)
	parsed.Names = names
	means := meaning.OfEvent(reason, parsed)
	why := strings.TrimRight(cmp.Or(means.Stops, parsed.Message, text), ". ")
	l := linkf(Problem, "%s: %s", w.fails, why)
	l.Next, l.Runbook, l.rank, l.topic = means.Next, w.runbook, means.Rank, means.Topic
	l.node, l.quota = names[fault.Node], means.Quota
	l.share, l.status = names[fault.Failed], names[fault.Status]
	if means.Stops == "" {
		l.said = why
	}
	if parsed.Leaf == fault.NotFound {
		l.missing = names[fault.Name]
	}
	if parsed.Answer != nil {
		l.answered = 1
	}
	if a := parsed.Answer; a != nil && !strings.Contains(l.Text, fmt.Sprintf("HTTP %d", a.Status)) {
		l.Text += fmt.Sprintf(" (HTTP %d)", a.Status)
	}
	if l.Next == "" && parsed.Answer != nil {
		l.Next = "Ask the administrators of OpenStack"
	}
	l.Next = cmp.Or(l.Next, w.knows)
	if !strings.HasSuffix(l.Text, strings.TrimRight(text, ". ")) {
		l.Detail = text
	}
	return l
}

// stale is the age at which an event does not say any more what is wrong now. Sidecars and the
// kubelet retry sooner.
const stale = 10 * time.Minute

// warnings returns what Warning events of the work mean, each meaning once and the newest first. An
// event counts if it is not much older than the newest one, which may be a consequence.
func (s *session) warnings(w work, all []corev1.Event) (links []Link) {
	var newest time.Time
	for _, e := range diagnosis.NewestFirst(all) {
		at := diagnosis.TimeOf(e)
		if e.Type != corev1.EventTypeWarning || w.reasons != nil &&
			!slices.Contains(w.reasons, e.Reason) || at.Before(w.since) ||
			!newest.IsZero() && newest.Sub(at) > stale {
			continue
		}
		if newest.IsZero() {
			newest = at
		}
		l := w.error(e.Reason, e.Message)
		if l.missing != "" && l.missing == w.exists || slices.ContainsFunc(links, func(known Link) bool {
			return known.Text == l.Text
		}) {
			continue
		}
		said := fmt.Sprintf("%s, %s ago", e.Reason, s.age(at))
		l.Detail = strings.TrimSuffix(said+": "+l.Detail, ": ")
		if s.clock.Since(newest) > stale {
			l = also(l)
			l.Text, l.rank = "earlier: "+l.Text, meaning.Consequence
		}
		links = append(links, l)
	}
	return links
}
