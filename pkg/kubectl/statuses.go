package kubectl

import (
	"cmp"
	_ "embed"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

//go:embed statuses.txt
var statuses string

// ailment is a volume or share of OpenStack, and what the next step depends on.
type ailment struct {
	stored

	// trouble is what is so beside the status: missing, elsewhere, nodeless, leaving, silent, or "".
	trouble string
	// service is the title of a driver, with snapshot for one, and id that of the volume or share.
	service, id string
	// pv, va and node are the names of its objects, "" if there are none.
	pv, va, node string
	// use is used, released or orphan.
	use string
	// state is that of the server: none, gone, off, runs, or "" if it is not known.
	state string
	// message is what the service says about it.
	message string
	// since is how long it has had the status, or the node has been silent, 0 if that is not known.
	since time.Duration
}

// Facts and classes of statuses.txt.
const (
	usedVolume, releasedVolume, orphanVolume          = "used", "released", "orphan"
	missing, elsewhere, nodeless                      = "missing", "elsewhere", "nodeless"
	leaving, silent                                   = "leaving", "silent"
	serverGone, serverOff, serverRuns, serverNone     = "gone", "off", "runs", "none"
	classUsable, classPassing, classHeld, classFailed = "usable", "passing", "held", "failed"
)

// lasts is how long an operation may take until somebody should look at it.
const lasts = 10 * time.Minute

// row returns the row of statuses.txt: the class of the status, what is so, and the steps.
func (a *ailment) row() (class, says, steps string) {
	const columns = 7
	facts := []string{a.service, cmp.Or(a.trouble, a.status), a.use, a.state}
	for line := range strings.Lines(statuses) {
		row := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(row) == columns && !slices.ContainsFunc([]int{0, 1, 2, 3}, func(i int) bool {
			return !fits(row[i], facts[i])
		}) {
			return row[4], row[5], row[6]
		}
	}
	return classHeld, "has a status that this release does not know", "admin: what does the status " +
		"{status} of {id} mean, and how does it end?"
}

// fits returns whether a fact is one of a column.
func fits(column, fact string) bool {
	return slices.ContainsFunc(strings.Split(column, ","), func(pattern string) bool {
		ok, _ := path.Match(pattern, fact) // the patterns of the table are valid
		return ok
	})
}

// link says what is wrong and what to do; nil if nothing is, or if it may end itself soon.
func (a *ailment) link() *Link {
	class, says, steps := a.row()
	recent := a.since > 0 && a.since < lasts
	state := Problem
	switch {
	case class == classUsable, class == "other", class != classFailed && recent:
		return nil
	case class == classPassing && a.since == 0:
		state = Progress
	case class == classPassing:
		state = Warning
	}
	thing := map[string]string{"Manila": "share ", "Cinder": "volume "}[a.service]
	l := linkf(state, "%s%s %s", cmp.Or(thing, "snapshot "), a.id, a.filled(says))
	switch {
	case a.since > 0:
		l.Text += " for " + duration.HumanDuration(a.since)
	case class == classPassing || class == classHeld:
		l.Text += " at this moment; OpenStack does not say since when"
	}
	if a.message != "" {
		l.said = strings.TrimRight(a.message, ". ")
		l.Text += ": " + l.said
	}
	if a.trouble == "" {
		l.Detail = "status " + a.status + " in OpenStack"
	}
	said := a.steps(steps)
	return new(l.then("%s", strings.ToUpper(said[:1])+said[1:]))
}

// thenStep is between two steps.
const thenStep = "; then "

// steps returns what to do: what is ours, and what to ask.
func (a *ailment) steps(text string) string {
	var all []string
	for step := range strings.SplitSeq(a.filled(text), " | ") {
		who, what, _ := strings.Cut(step, ": ")
		if who == "admin" {
			what = "ask the cloud's administrator: \"" + what + "\""
		} else {
			what = "yours: " + what
		}
		all = append(all, what)
	}
	return strings.Join(all, thenStep)
}

func (a *ailment) filled(text string) string {
	rest := "available"
	if a.server != "" {
		rest = "in-use"
	}
	set, worker := "openstack volume snapshot set --state", "cinder-volume"
	if strings.HasPrefix(a.service, "Manila") {
		set, worker = "openstack share snapshot set --status", "manila-share"
	}
	return strings.NewReplacer("{id}", a.id, "{status}", a.status, "{rest}", rest, "{set}", set,
		"{worker}", worker, "{server}", cmp.Or(a.server, "ID"), "{pv}", a.pv, "{va}", a.va,
		"{attachment}", cmp.Or(a.attachment, "ID"), "{node}", a.node).Replace(text)
}
