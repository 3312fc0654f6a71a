package kubectl

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// ailments returns each status of the services and of ours with each use and each server, for a
// while and for a moment.
func ailments(t *testing.T) (all []*ailment) {
	t.Helper()
	text, err := os.ReadFile("testdata/statuses.txt")
	assert.NilError(t, err)
	lines := string(text)
	for _, trouble := range []string{missing, elsewhere, nodeless, leaving, silent} {
		lines += "Cinder\t" + trouble + "\n"
	}
	// From Manila 2023.2 and 2024.2.
	for _, status := range []string{
		missing, "awaiting_transfer", "backup_creating", "backup_restoring", "backup_restoring_error",
		"ensuring",
	} {
		lines += "Manila\t" + status + "\n"
	}
	// SnapshotStatus of Cinder, and what Manila sets.
	for _, status := range []string{
		missing, "available", "creating", "deleting", "deleted", "error", "error_deleting", "restoring",
	} {
		lines += "Cinder snapshot\t" + status + "\nManila snapshot\t" + status + "\n"
	}
	lines += "Cinder snapshot\tunmanaging\nCinder snapshot\tbacking-up\n" +
		"Manila snapshot\tmanage_error\nManila snapshot\tmanage_starting\n"
	for line := range strings.Lines(lines) {
		service, status, found := strings.Cut(strings.TrimSpace(line), "\t")
		if !found {
			continue
		}
		for _, use := range []string{usedVolume, releasedVolume, orphanVolume} {
			for _, state := range []string{serverNone, serverGone, serverOff, serverRuns, ""} {
				a := &ailment{
					service: service, trouble: status, id: "volume-1", pv: "pv-1", va: "va-1", node: "node-1",
					use: use, state: state, since: time.Hour,
				}
				if state != serverNone {
					a.server, a.attachment = "server-1", "attachment-1"
				}
				all = append(all, a)
			}
		}
	}
	return all
}

func TestEachStatusIsJudged(t *testing.T) {
	t.Parallel()
	administrators := regexp.MustCompile(`--(state|status|detached) `)
	deletes := regexp.MustCompile(`openstack (volume|share)( snapshot)? delete`)
	all := ailments(t)
	assert.Assert(t, len(all) > 800, len(all))
	for _, a := range all {
		name := strings.Join([]string{a.service, a.trouble, a.use, a.state}, " ")
		class, says, _ := a.row()
		assert.Check(t, !strings.Contains(says, "does not know"), name)
		l := a.link()
		assert.Check(t, is.Equal(l == nil, class == classUsable || class == "other"), name)
		if l == nil {
			continue
		}
		assert.Check(t, !strings.Contains(strings.ReplaceAll(l.Text+l.Next, `{"`, ""), "{"), name)
		for step := range strings.SplitSeq(l.Next, "; then ") {
			asks := strings.HasPrefix(strings.ToLower(step), `ask the cloud's administrator: "`)
			assert.Check(t, asks || strings.HasPrefix(strings.ToLower(step), "yours: "),
				"%s: %s", name, step)
			assert.Check(t, asks || !administrators.MatchString(step), "%s: %s", name, step)
			mayDetach := a.state == serverGone || a.state == serverNone
			assert.Check(t, !strings.Contains(step, "--detached") || mayDetach, "%s: %s", name, step)
			assert.Check(t, a.use != usedVolume || !deletes.MatchString(step), "%s: %s", name, step)
		}
		first, _, _ := strings.Cut(l.Next, "; then ")
		frees := strings.Contains(first, "delete volumeattachment") ||
			strings.Contains(first, "finalizers") ||
			strings.Contains(first, "attachment delete attachment-1")
		assert.Check(t, !frees || a.state != serverRuns && a.state != "", "%s: %s", name, first)
	}
}

// What the operators report as an error is one here, too.
func TestStatusesInErrorAreThoseOfTheOperators(t *testing.T) {
	t.Parallel()
	for service, all := range map[string][]string{
		"Cinder": openstack.VolumeErrors(), "Manila": openstack.ShareErrors(),
	} {
		for _, status := range all {
			a := &ailment{service: service, stored: stored{status: status}, use: usedVolume}
			class, _, _ := a.row()
			assert.Check(t, is.Equal(class, classFailed), "%s %s", service, status)
		}
	}
}

func TestPassingStatusesAreNoTroubleAtOnce(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]State{
		"extending": Warning, "maintenance": Problem, "reserved": Problem, "error": Problem,
	} {
		a := &ailment{
			service: "Cinder", stored: stored{status: status}, use: usedVolume, since: time.Minute,
		}
		assert.Check(t, is.Equal(a.link() == nil, status != "error"), status)
		a.since = lasts
		assert.Check(t, is.Equal(a.link().State, want), status)
	}
	a := &ailment{service: "Manila", stored: stored{status: "extending"}, use: usedVolume}
	assert.Check(t, a.link().State == Progress && strings.Contains(a.link().Text, "at this moment"))
	a.status = "new status"
	assert.Check(t, is.Contains(a.link().Next, "what does the status new status of"))
}
